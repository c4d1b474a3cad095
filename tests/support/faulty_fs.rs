//! A `HostFs` that records the calls and lets one of them go wrong.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::Path;

use schedpatch::apply::{HostFs, NewFile, RealFs};
use schedpatch::host::Dir;

/// One call, as far as it says what is on the disk afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    MakeDir { dir: String, name: String },
    Create { dir: String, name: String },
    OpenLock { dir: String, name: String },
    Write { file: String, bytes: Vec<u8> },
    SetOwner { file: String },
    SetMode { file: String, mode: u32 },
    SetDirMode { dir: String, mode: u32 },
    SetLabel { file: String },
    Sync { file: String },
    SyncDir { dir: String },
    Rename { dir: String, from: String, to: String },
    RemoveFile { dir: String, name: String },
    RemoveDir { dir: String, name: String },
}

/// What goes wrong, and at which call; calls are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The process is gone before this call: neither it nor any later one has an effect
    Kill(usize),
    /// This call fails so
    Error(usize, i32),
    /// This write writes only its first byte
    Short(usize),
    /// This call says that it is done, and is not
    Drop(usize),
}

/// A real directory in which nothing is really synced: tests need only the order of the calls.
pub struct FaultyFs<'a> {
    fault: Fault,
    calls: RefCell<Vec<(Call, bool)>>,
    /// Done before every call
    before: Box<dyn Fn(&Call) + 'a>,
}

enum Turn {
    Real,
    Fails(io::Error),
    Short,
    Dropped,
}

impl<'a> FaultyFs<'a> {
    pub fn new(fault: Fault) -> Self {
        Self { fault, calls: RefCell::new(Vec::new()), before: Box::new(|_| {}) }
    }

    /// Like `new`, but runs `before` before every call.
    pub fn with(before: impl Fn(&Call) + 'a) -> Self {
        Self { before: Box::new(before), ..Self::new(Fault::None) }
    }

    /// All calls, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.borrow().iter().map(|(call, _)| call.clone()).collect()
    }

    /// The calls that had an effect.
    pub fn effects(&self) -> Vec<Call> {
        self.calls.borrow().iter().filter(|(_, effective)| *effective).map(|(call, _)| call.clone()).collect()
    }

    /// Notes that the last call did what it says.
    fn took_effect<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let (Ok(_), Some(last)) = (&result, self.calls.borrow_mut().last_mut()) {
            last.1 = true;
        }
        result
    }

    fn turn(&self, call: Call) -> Turn {
        (self.before)(&call);
        let mut calls = self.calls.borrow_mut();
        let now = calls.len();
        let turn = match self.fault {
            Fault::Kill(at) if now >= at => return Turn::Fails(io::Error::other("killed")),
            Fault::Error(at, errno) if now == at => Turn::Fails(io::Error::from_raw_os_error(errno)),
            Fault::Short(at) if now == at => Turn::Short,
            Fault::Drop(at) if now == at => Turn::Dropped,
            _ => Turn::Real,
        };
        calls.push((call, false));
        turn
    }

    fn run(&self, call: Call, real: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match self.turn(call) {
            Turn::Real | Turn::Short => self.took_effect(real()),
            Turn::Fails(error) => Err(error),
            Turn::Dropped => Ok(()),
        }
    }

    fn open(&self, call: Call, path: String, real: impl FnOnce() -> io::Result<NewFile>) -> io::Result<NewFile> {
        match self.turn(call) {
            Turn::Real | Turn::Short => self.took_effect(real()),
            Turn::Fails(error) => Err(error),
            Turn::Dropped => Ok(NewFile::new(nameless_file()?, path)),
        }
    }
}

/// A file that is nowhere.
fn nameless_file() -> io::Result<fs::File> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("nameless-{:?}", std::thread::current().id()));
    let file = fs::File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

impl HostFs for FaultyFs<'_> {
    fn make_dir(&self, dir: &Dir, name: &str) -> io::Result<()> {
        let call = Call::MakeDir { dir: dir.path().to_owned(), name: name.to_owned() };
        self.run(call, || RealFs.make_dir(dir, name))
    }

    fn create(&self, dir: &Dir, name: &str) -> io::Result<NewFile> {
        let call = Call::Create { dir: dir.path().to_owned(), name: name.to_owned() };
        self.open(call, dir.path_of(name), || RealFs.create(dir, name))
    }

    fn open_lock(&self, dir: &Dir, name: &str) -> io::Result<NewFile> {
        let call = Call::OpenLock { dir: dir.path().to_owned(), name: name.to_owned() };
        self.open(call, dir.path_of(name), || RealFs.open_lock(dir, name))
    }

    fn write(&self, file: &NewFile, bytes: &[u8]) -> io::Result<usize> {
        let written = |bytes: &[u8]| Call::Write { file: file.path().to_owned(), bytes: bytes.to_vec() };
        match self.turn(written(bytes)) {
            Turn::Real => self.took_effect(RealFs.write(file, bytes)),
            Turn::Fails(error) => Err(error),
            Turn::Short => RealFs.write(file, &bytes[..1]),
            Turn::Dropped => Ok(bytes.len()),
        }
    }

    fn set_owner(&self, file: &NewFile, user: u32, group: u32) -> io::Result<()> {
        let call = Call::SetOwner { file: file.path().to_owned() };
        self.run(call, || RealFs.set_owner(file, user, group))
    }

    fn set_mode(&self, file: &NewFile, mode: u32) -> io::Result<()> {
        let call = Call::SetMode { file: file.path().to_owned(), mode };
        self.run(call, || RealFs.set_mode(file, mode))
    }

    fn set_dir_mode(&self, dir: &Dir, mode: u32) -> io::Result<()> {
        let call = Call::SetDirMode { dir: dir.path().to_owned(), mode };
        self.run(call, || RealFs.set_dir_mode(dir, mode))
    }

    fn set_label(&self, file: &NewFile, name: &str, value: &[u8]) -> io::Result<()> {
        let call = Call::SetLabel { file: file.path().to_owned() };
        self.run(call, || RealFs.set_label(file, name, value))
    }

    fn remove_label(&self, file: &NewFile, name: &str) -> io::Result<()> {
        let call = Call::SetLabel { file: file.path().to_owned() };
        self.run(call, || RealFs.remove_label(file, name))
    }

    fn sync(&self, file: &NewFile) -> io::Result<()> {
        self.run(Call::Sync { file: file.path().to_owned() }, || Ok(()))
    }

    fn sync_dir(&self, dir: &Dir) -> io::Result<()> {
        self.run(Call::SyncDir { dir: dir.path().to_owned() }, || Ok(()))
    }

    fn rename(&self, dir: &Dir, from: &str, to: &str) -> io::Result<()> {
        let call = Call::Rename { dir: dir.path().to_owned(), from: from.to_owned(), to: to.to_owned() };
        self.run(call, || RealFs.rename(dir, from, to))
    }

    fn remove_file(&self, dir: &Dir, name: &str) -> io::Result<()> {
        let call = Call::RemoveFile { dir: dir.path().to_owned(), name: name.to_owned() };
        self.run(call, || RealFs.remove_file(dir, name))
    }

    fn remove_dir(&self, dir: &Dir, name: &str) -> io::Result<()> {
        let call = Call::RemoveDir { dir: dir.path().to_owned(), name: name.to_owned() };
        self.run(call, || RealFs.remove_dir(dir, name))
    }
}
