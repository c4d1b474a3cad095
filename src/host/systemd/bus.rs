//! systemd over D-Bus. Each call is a connection of its own on a thread of its own: calls are rare, and a connection that is kept
//! would have to be looked after when the bus restarts.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use zbus::connection::Builder;
use zbus::{Connection, OwnedObjectPath, OwnedVariant, Variant};

use super::{SOCKET, ServiceManager, SystemdError, UnitState};
use crate::host::HostRoot;

const SYSTEMD: &str = "org.freedesktop.systemd1";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
const SERVICE: &str = "org.freedesktop.systemd1.Service";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// A reload reads all units of the host.
const PATIENCE: Duration = Duration::from_secs(20);

/// The real service manager.
#[derive(Clone, Copy, Debug)]
pub struct Bus;

impl ServiceManager for Bus {
    fn unit(&self, host_root: &Path, name: &str) -> Result<UnitState, SystemdError> {
        let name = name.to_owned();
        call(host_root, async move |connection| {
            let message =
                connection.call_method(Some(SYSTEMD), MANAGER_PATH, Some(MANAGER), "LoadUnit", &(&name,)).await?;
            let path: OwnedObjectPath = message.body().deserialize()?;
            let unit = Properties { connection: &connection, path: &path, interface: UNIT };
            let service = Properties { interface: SERVICE, ..unit };
            Ok(UnitState {
                fragment: text(&unit.get("FragmentPath").await?),
                drop_ins: texts(&unit.get("DropInPaths").await?),
                commands: commands(&service.get("ExecStart").await?),
                invocation: hex(&unit.get("InvocationID").await?),
                restarts: number(&service.get("NRestarts").await?),
                active: text(&unit.get("ActiveState").await?),
                sub: text(&unit.get("SubState").await?),
                result: text(&service.get("Result").await?),
                has_job: has_job(&unit.get("Job").await?),
            })
        })
    }

    fn reload(&self, host_root: &Path) -> Result<(), SystemdError> {
        call(host_root, async |connection| {
            connection.call_method(Some(SYSTEMD), MANAGER_PATH, Some(MANAGER), "Reload", &()).await.map(drop)
        })
    }

    fn restart(&self, host_root: &Path, name: &str) -> Result<(), SystemdError> {
        let name = name.to_owned();
        call(host_root, async move |connection| {
            let arguments = (&name, "replace");
            let asked = connection.call_method(Some(SYSTEMD), MANAGER_PATH, Some(MANAGER), "RestartUnit", &arguments);
            asked.await.map(drop)
        })
    }
}

/// Connects, makes the calls and gives their answer.
fn call<T: Send + 'static>(
    host_root: &Path,
    ask: impl AsyncFnOnce(Connection) -> zbus::Result<T> + Send + 'static,
) -> Result<T, SystemdError> {
    let failed = |error: io::Error| SystemdError::Failed { why: error.to_string() };
    let socket = HostRoot::new(host_root).resolve(SOCKET).map_err(|error| of_socket(&error))?;
    let talk = move || {
        let stream = UnixStream::connect(&socket).map_err(|error| of_socket(&error))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        runtime.block_on(async move {
            let answer = async {
                let connection = Builder::unix_stream(stream).build().await?;
                ask(connection).await
            };
            match tokio::time::timeout(PATIENCE, answer).await {
                Ok(answer) => answer.map_err(|error| of_bus(&error)),
                Err(_) => Err(SystemdError::Silent { seconds: PATIENCE.as_secs() }),
            }
        })
    };
    let thread = thread::Builder::new().name("systemd".to_owned()).spawn(talk).map_err(failed)?;
    thread.join().unwrap_or_else(|_| Err(SystemdError::Failed { why: "its thread ended without a word".to_owned() }))
}

fn of_socket(error: &io::Error) -> SystemdError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            SystemdError::NoSocket { path: SOCKET.to_owned() }
        }
        io::ErrorKind::PermissionDenied => SystemdError::Denied { why: error.to_string() },
        _ => SystemdError::Failed { why: error.to_string() },
    }
}

fn of_bus(error: &zbus::Error) -> SystemdError {
    let why = error.to_string();
    let is_denied =
        ["AccessDenied", "AuthFailed", "InteractiveAuthorizationRequired"].iter().any(|name| why.contains(name));
    if is_denied || matches!(error, zbus::Error::Handshake(_)) {
        SystemdError::Denied { why }
    } else {
        SystemdError::Failed { why }
    }
}

/// The properties of an object in one of its interfaces.
#[derive(Clone, Copy)]
struct Properties<'a> {
    connection: &'a Connection,
    path: &'a OwnedObjectPath,
    interface: &'static str,
}

impl Properties<'_> {
    async fn get(self, name: &str) -> zbus::Result<Variant<'static>> {
        let arguments = (self.interface, name);
        let asked = self.connection.call_method(Some(SYSTEMD), self.path, Some(PROPERTIES), "Get", &arguments);
        asked.await?.body().deserialize::<OwnedVariant>().map(Variant::from)
    }
}

fn text(value: &Variant<'_>) -> String {
    match value {
        Variant::Str(text) => text.to_string(),
        _ => String::new(),
    }
}

fn number(value: &Variant<'_>) -> u32 {
    match value {
        Variant::U32(number) => *number,
        _ => 0,
    }
}

fn items<'v, 'a>(value: &'v Variant<'a>) -> &'v [Variant<'a>] {
    match value {
        Variant::Array(items) => items.inner(),
        Variant::Structure(fields) => fields.fields(),
        _ => &[],
    }
}

fn texts(value: &Variant<'_>) -> Vec<String> {
    items(value).iter().map(text).collect()
}

/// Of each command the second field has the words.
fn commands(value: &Variant<'_>) -> Vec<Vec<String>> {
    items(value).iter().filter_map(|command| items(command).get(1)).map(texts).collect()
}

fn hex(value: &Variant<'_>) -> String {
    let bytes = items(value).iter().map(|byte| match byte {
        Variant::U8(byte) => format!("{byte:02x}"),
        _ => String::new(),
    });
    bytes.collect()
}

/// A job has a number other than 0.
fn has_job(value: &Variant<'_>) -> bool {
    items(value).first().is_some_and(|id| number(id) != 0)
}
