//! Shutdown: SIGTERM or SIGINT ends the process in order.

use tokio::signal::unix::{SignalKind, signal};

/// Registers the handlers at once and returns a future that ends with the first SIGTERM or SIGINT.
pub fn signalled() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
