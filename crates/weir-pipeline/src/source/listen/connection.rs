//! One accepted connection: TLS, then the service of its source.

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::watch;
use weir_host::{Acceptor, Handshakes};

use super::accept::{Connection, Service};
use super::socket::Accepted;
use crate::stats::{SourceStats, add};

/// Counts a connection while it is open.
struct OpenConnection(Arc<SourceStats>);

impl OpenConnection {
    fn new(stats: &Arc<SourceStats>) -> Self {
        stats.listener.connection_opened();
        Self(Arc::clone(stats))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.listener.connection_closed();
    }
}

/// Serves a connection until it ends or is asked to end.
pub(super) async fn serve(
    accepted: Accepted,
    service: &Service,
    tls: Option<Rc<(Arc<Acceptor>, Handshakes)>>,
    connection: &Rc<Connection>,
    mut stopped: watch::Receiver<bool>,
) {
    let stats = service.stats();
    let _open = OpenConnection::new(stats);
    let (stream, tls) = match (accepted, tls) {
        (Accepted::Tcp(stream, _), Some(tls)) => (stream, tls),
        (Accepted::Tcp(stream, _), None) => {
            return service.serve(stream, connection, stopped).await;
        }
        (Accepted::Unix(stream), _) => return service.serve(stream, connection, stopped).await,
    };
    let (acceptor, handshakes) = &*tls;
    let accepted = tokio::select! {
        accepted = handshakes.run(acceptor.accept(stream)) => accepted,
        () = connection.slot.evicted() => return count_evicted(stats),
        _ = stopped.wait_for(|stopped| *stopped) => return,
    };
    stats.listener.set_tls_error(acceptor.reload_error());
    match accepted {
        Ok(stream) => service.serve(stream, connection, stopped).await,
        Err(error) => stats.errors.count("tls", &error.to_string()),
    }
}

/// Counts a connection that is closed for a newer one.
pub(super) fn count_evicted(stats: &SourceStats) {
    add(&stats.listener.evicted_total, 1);
    tracing::debug!("connection closed to make room for a newer one");
}
