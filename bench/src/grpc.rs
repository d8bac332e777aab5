//! A client of gRPC that sends one stream of messages, as fast as they are accepted.

use std::future::poll_fn;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use h2::SendStream;
use h2::client::ResponseFuture;
use hyper::{Method, Request};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use weir_codec::write_grpc_message;

/// An open stream to `loggregator.v2.Ingress/BatchSender`.
#[derive(Debug)]
pub(crate) struct Client {
    runtime: Runtime,
    stream: SendStream<Bytes>,
    response: ResponseFuture,
}

impl Client {
    /// Connects to a port of this machine, and opens the stream.
    pub(crate) fn connect(port: u16) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stream, response) = runtime.block_on(async {
            let tcp = TcpStream::connect(("127.0.0.1", port)).await?;
            let (sender, connection) = h2::client::handshake(tcp).await?;
            runtime.spawn(connection);
            let mut sender = sender.ready().await?;
            let request = Request::builder()
                .method(Method::POST)
                .uri(format!("http://127.0.0.1:{port}/loggregator.v2.Ingress/BatchSender"))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(())?;
            let (response, stream) = sender.send_request(request, false)?;
            anyhow::Ok((stream, response))
        })?;
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
