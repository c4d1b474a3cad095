//! A way to the host that does something before and after the manifest is renamed into place, or when a file is synced.

use std::io;
use std::sync::Mutex;

use schedpatch::apply::{HostFs, NewFile, RealFs};
use schedpatch::host::Dir;

type Before = Box<dyn FnMut(&str) + Send>;
type After = Box<dyn FnMut() + Send>;

pub struct RenameHook(Mutex<(Before, After)>, Mutex<After>);

impl RenameHook {
    pub fn new(before: impl FnMut(&str) + Send + 'static, after: impl FnMut() + Send + 'static) -> Self {
        Self(Mutex::new((Box::new(before), Box::new(after))), Mutex::new(Box::new(|| ())))
    }

    /// Does this whenever a file is synced.
    pub fn on_sync(act: impl FnMut() + Send + 'static) -> Self {
        Self(Mutex::new((Box::new(|_| ()), Box::new(|| ()))), Mutex::new(Box::new(act)))
    }
}

macro_rules! pass_on {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $out:ty;)*) => {
        $(fn $name(&self, $($arg: $kind),*) -> io::Result<$out> { RealFs.$name($($arg),*) })*
    };
}

impl HostFs for RenameHook {
    pass_on! {
        make_dir(dir: &Dir, name: &str) -> ();
        create(dir: &Dir, name: &str) -> NewFile;
        open_lock(dir: &Dir, name: &str) -> NewFile;
        write(file: &NewFile, bytes: &[u8]) -> usize;
        set_owner(file: &NewFile, user: u32, group: u32) -> ();
        set_mode(file: &NewFile, mode: u32) -> ();
        set_dir_mode(dir: &Dir, mode: u32) -> ();
        set_label(file: &NewFile, name: &str, value: &[u8]) -> ();
        remove_label(file: &NewFile, name: &str) -> ();
        sync_dir(dir: &Dir) -> ();
        remove_file(dir: &Dir, name: &str) -> ();
        remove_dir(dir: &Dir, name: &str) -> ();
    }

    fn sync(&self, file: &NewFile) -> io::Result<()> {
        (self.1.lock().expect("nobody panics with it"))();
        RealFs.sync(file)
    }

    fn rename(&self, dir: &Dir, from: &str, to: &str) -> io::Result<()> {
        let is_manifest = to == "kube-scheduler.yaml";
        let mut around = self.0.lock().expect("nobody panics with it");
        if is_manifest {
            (around.0)(from);
        }
        RealFs.rename(dir, from, to)?;
        if is_manifest {
            (around.1)();
        }
        Ok(())
    }
}
