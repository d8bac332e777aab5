//! `Fluent Bit` as a process, with the same lines and the same collector as weir.
//!
//! Written for release 5.1 and its classic configuration. Every setting that is not named here has
//! its default.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::clock;
use crate::data::Shape;
use crate::process::{Cpu, Process, Program};
use crate::sink::Sink;

/// Pause between checks for new requests at the collector.
const ASKING: Duration = Duration::from_millis(100);
/// It flushes once per second: if nothing arrives for this long, it has finished.
const REST: Duration = Duration::from_secs(4);

/// The parser of docker's lines, as in the `conf/parsers.conf` that is part of it.
const PARSERS: &str = "[PARSER]\n    Name docker\n    Format json\n    Time_Key time\n    \
                       Time_Format %Y-%m-%dT%H:%M:%S.%L\n    Time_Keep On\n";

/// Its destination.
pub(crate) enum To<'a> {
    /// A HEC collector.
    Hec {
        sink: &'a Sink,
        is_gzip: bool,
        /// The certificate of the collector, with TLS.
        certificate: Option<&'a Path>,
    },
    /// Nowhere.
    Null,
}

impl To<'_> {
    fn section(&self) -> String {
        let Self::Hec { sink, is_gzip, certificate } = self else {
            return "[OUTPUT]\n    Name null\n    Match *\n".to_owned();
        };
        let (host, port) = sink.address();
        let compress = if *is_gzip { "    Compress gzip\n" } else { "" };
        let tls = certificate.map_or(String::new(), |file| {
            format!("    tls On\n    tls.ca_file {}\n", file.display())
        });
        format!(
            "[OUTPUT]\n    Name splunk\n    Match *\n    Host {host}\n    Port {port}\n    \
             Splunk_Token 00000000-0000-0000-0000-000000000000\n    Retry_Limit no_limits\n\
             {compress}{tls}"
        )
    }
}

/// A running `Fluent Bit`; it is stopped when this is dropped.
#[derive(Debug)]
pub(crate) struct Agent(Program);

impl Agent {
    /// Starts it on the files that match `pattern`, with its own files in `dir`.
    pub(crate) fn start(
        binary: &Path,
        dir: &Path,
        pattern: &str,
        shape: Shape,
        to: &To<'_>,
    ) -> Result<Self> {
        let [parsers, config] = ["parsers.conf", "agent.conf"].map(|name| dir.join(name));
        fs::write(&parsers, PARSERS)?;
        let parser = if shape == Shape::DockerJson { "    Parser docker\n" } else { "" };
        fs::write(
            &config,
            format!(
                "[SERVICE]\n    Flush 1\n    Log_Level warn\n    Parsers_File {}\n\
                 [INPUT]\n    Name tail\n    Path {pattern}\n    Read_from_Head On\n{parser}{}",
                parsers.display(),
                to.section()
            ),
        )?;
        let mut command = Command::new(binary);
        command.arg("-c").arg(&config);
        // Not `*.log`, which it would follow.
        Ok(Self(Program::start(&mut command, &dir.join("agent.out"))?))
    }

    /// Returns its process.
    pub(crate) fn process(&self) -> Process {
        self.0.process()
    }

    /// Waits until nothing more arrives at the collector. Returns the CPU time since its start, and
    /// when the last request arrived.
    pub(crate) fn finish(&self, sink: &mut Sink, limit: Duration) -> Result<(Cpu, Instant)> {
        let mut last = ([0; 3], Instant::now());
        let at_rest = clock::wait_for(ASKING, limit, || {
            let seen = sink.peek()?;
            if seen != last.0 {
                last = (seen, Instant::now());
            }
            Ok(seen != [0; 3] && last.1.elapsed() > REST)
        })?;
        ensure!(at_rest, "the agent was still sending after {limit:?}");
        Ok((self.process().cpu()?, last.1))
    }
}
