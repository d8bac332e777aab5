//! Clients of gRPC: one that sends a stream of messages as fast as they are accepted, and one that
//! reads a stream of them.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use h2::client::{Builder as Http2, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use hyper::{Method, Request};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use weir_codec::{GrpcFraming, GrpcStep, write_grpc_message};

/// Longest message that a reader accepts: the default of the Go library.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Window of a reader's stream, bytes.
const WINDOW_BYTES: u32 = 1 << 20;

/// A port of this machine, with TLS or without.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// The port.
    pub(crate) port: u16,
    /// How to connect, with TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

impl Server {
    /// A port without TLS.
    pub(crate) fn plain(port: u16) -> Self {
        Self { port, tls: None }
    }

    /// Opens a connection whose I/O runs on a thread of its own, so that it makes progress while
    /// its owner is busy.
    fn connect(&self) -> Result<SendRequest<Bytes>> {
        let (server, runtime) = (self.clone(), runtime()?);
        let (connected, sender) = oneshot::channel();
        std::thread::spawn(move || {
            runtime.block_on(async {
                match server.open().await {
                    Ok((sender, connection)) => {
                        let _waited_for = connected.send(Ok(sender));
                        connection.await;
                    }
                    Err(error) => drop(connected.send(Err(error))),
                }
            });
        });
        sender.blocking_recv()?
    }

    async fn open(&self) -> Result<(SendRequest<Bytes>, Connection)> {
        let tcp = TcpStream::connect(("127.0.0.1", self.port)).await?;
        tcp.set_nodelay(true)?;
        let Some(tls) = self.tls.clone() else { return handshake(tcp).await };
        let name = ServerName::try_from("localhost")?;
        handshake(TlsConnector::from(tls).connect(name, tcp).await?).await
    }

    /// Opens a call.
    async fn call(
        &self,
        sender: SendRequest<Bytes>,
        method: &str,
    ) -> Result<(ResponseFuture, SendStream<Bytes>)> {
        let mut sender = sender.ready().await?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://127.0.0.1:{}/{method}", self.port))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        Ok(sender.send_request(request, false)?)
    }
}

/// The I/O of a connection, to be run until it ends.
type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn handshake<S>(stream: S) -> Result<(SendRequest<Bytes>, Connection)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http2 = Http2::new();
    http2.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
    let (sender, connection) = http2.handshake(stream).await?;
    // An error ends the streams, too.
    Ok((sender, Box::pin(async { drop(connection.await) })))
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// An open stream to `loggregator.v2.Ingress/BatchSender`.
#[derive(Debug)]
pub(crate) struct Client {
    runtime: Runtime,
    stream: SendStream<Bytes>,
    response: ResponseFuture,
}

impl Client {
    /// Connects, and opens the stream.
    pub(crate) fn connect(server: &Server) -> Result<Self> {
        let runtime = runtime()?;
        let sender = server.connect()?;
        let call = runtime.block_on(server.call(sender, "loggregator.v2.Ingress/BatchSender"));
        let (response, stream) = call?;
        Ok(Self { runtime, stream, response })
    }

    /// Sends a message; waits until it is accepted.
    pub(crate) fn send(&mut self, message: &[u8]) -> Result<()> {
        let mut bytes = Vec::with_capacity(message.len() + 8);
        write_grpc_message(message, &mut bytes);
        let mut rest = Bytes::from(bytes);
        let stream = &mut self.stream;
        self.runtime.block_on(async {
            while !rest.is_empty() {
                stream.reserve_capacity(rest.len());
                let capacity = poll_fn(|context| stream.poll_capacity(context)).await;
                let capacity = capacity.context("the stream has ended")??;
                stream.send_data(rest.split_to(capacity.min(rest.len())), false)?;
            }
            Ok(())
        })
    }

    /// Ends the stream; waits for the answer.
    pub(crate) fn finish(self) -> Result<()> {
        let Self { runtime, mut stream, response } = self;
        runtime.block_on(async {
            stream.send_data(Bytes::new(), true)?;
            let mut body = response.await?.into_body();
            while let Some(part) = body.data().await {
                body.flow_control().release_capacity(part?.len())?;
            }
            let trailers = body.trailers().await?.context("there is no status")?;
            let status = trailers.get("grpc-status").and_then(|status| status.to_str().ok());
            ensure!(status == Some("0"), "the status is {status:?}");
            Ok(())
        })
    }
}

/// A stream of messages that a server sends.
#[derive(Debug)]
pub(crate) struct Reader {
    runtime: Runtime,
    body: RecvStream,
    /// The request stays open.
    _request: SendStream<Bytes>,
    framing: GrpcFraming,
}

impl Reader {
    /// Connects, asks, and waits until the server has answered.
    pub(crate) fn open(server: &Server, method: &str, request: &[u8]) -> Result<Self> {
        let runtime = runtime()?;
        let (body, sending) = runtime.block_on(async {
            let (sender, connection) = server.open().await?;
            tokio::spawn(connection);
            let (response, mut stream) = server.call(sender, method).await?;
            let mut bytes = Vec::new();
            write_grpc_message(request, &mut bytes);
            stream.send_data(bytes.into(), true)?;
            anyhow::Ok((response.await?.into_body(), stream))
        })?;
        let framing = GrpcFraming::new(MESSAGE_BYTES_MAX);
        Ok(Self { runtime, body, _request: sending, framing })
    }

    /// Calls `take` with each message of the next part. Returns false if the stream has ended.
    pub(crate) fn read(&mut self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let Some(part) = self.runtime.block_on(self.body.data()) else { return Ok(false) };
        let part = part?;
        self.body.flow_control().release_capacity(part.len())?;
        let mut bytes = &part[..];
        while let GrpcStep::Message(message) = self.framing.next(&mut bytes)? {
            take(message)?;
        }
        Ok(true)
    }
}
