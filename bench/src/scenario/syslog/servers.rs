//! The servers that are compared, with the same rules and files: weir, syslog-ng and rsyslog.
//!
//! The others are programs of Debian, unpacked below the directory in `WEIR_SYSLOG_SERVERS`;
//! without it they are skipped.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::{Condition, Order, rules};
use crate::clock;
use crate::http;
use crate::process::{Process, Program};
use crate::weir::Weir;

/// Name of the variable with the directory of the other servers.
const DIRECTORY: &str = "WEIR_SYSLOG_SERVERS";

/// A running server; it is stopped when this is dropped.
pub(super) struct Server {
    running: Running,
    port: u16,
}

enum Running {
    Weir(Weir),
    Other(Other),
}

/// Another server.
struct Other(Program);

impl Other {
    fn syslog_ng(root: &Path, dir: &Path, order: Order, port: u16) -> Result<Self> {
        let mut command = Command::new(root.join("usr/sbin/syslog-ng"));
        command.args(["--foreground", "--no-caps", "--module-path"]);
        command.arg(root.join("usr/lib/syslog-ng/3.38"));
        for (option, name) in
            [("--persist-file", "persist"), ("--control", "ctl"), ("--pidfile", "pid")]
        {
            command.arg(option).arg(dir.join(name));
        }
        command.arg("--cfgfile");
        Self::start(command, root, dir, &syslog_ng(dir, order, port))
    }

    fn rsyslog(root: &Path, dir: &Path, order: Order, port: u16) -> Result<Self> {
        let mut command = Command::new(root.join("usr/sbin/rsyslogd"));
        command.args(["-n", "-i", "NONE", "-M"]);
        command.arg(root.join("usr/lib/x86_64-linux-gnu/rsyslog"));
        command.arg("-f");
        Self::start(command, root, dir, &rsyslog(dir, order, port))
    }

    /// Starts a program whose last argument is its configuration.
    fn start(mut command: Command, root: &Path, dir: &Path, config: &str) -> Result<Self> {
        let file = dir.join("other.conf");
        fs::write(&file, config)?;
        let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/syslog-ng"]
            .map(|dir| root.join(dir).display().to_string());
        command.arg(&file).env("LD_LIBRARY_PATH", libraries.join(":"));
        Ok(Self(Program::start(&mut command, &dir.join("other.log"))?))
    }
}

impl Server {
    /// Starts a server that receives over TCP and writes to files in `out` below `dir`. `None` if
    /// it is not installed.
    pub(super) fn start(name: &str, dir: &Path, order: Order) -> Result<Option<Self>> {
        fs::create_dir_all(dir.join("out"))?;
        if name == "weir" {
            let port = http::free_port()?;
            let source = source(port, "protocol = \"tcp\"\n");
            let config = format!("default_to = []\n{source}{}", weir_files(dir, order));
            let weir = Weir::start(dir, &config)?;
            return Ok(Some(Self { running: Running::Weir(weir), port }));
        }
        let Some(root) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
            eprintln!("  {name} is skipped: {DIRECTORY} is not set");
            return Ok(None);
        };
        let port = http::free_port()?;
        let other = if name == "syslog-ng" {
            Other::syslog_ng(&root, dir, order, port)?
        } else {
            Other::rsyslog(&root, dir, order, port)?
        };
        let server = Self { running: Running::Other(other), port };
        let listens = || Ok(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        let is_up = clock::wait_for(Duration::from_millis(50), Duration::from_secs(20), listens)?;
        let log = fs::read_to_string(dir.join("other.log")).unwrap_or_default();
        ensure!(is_up, "{name} does not listen: {log}");
        Ok(Some(server))
    }

    /// Starts weir with a UDP source and one file.
    pub(super) fn start_udp(dir: &Path) -> Result<Self> {
        Self::one_file(dir, "protocol = \"udp\"\nreceive_buffer = \"8MiB\"\n")
    }

    /// Starts weir with a RELP source and one file.
    pub(super) fn start_relp(dir: &Path) -> Result<Self> {
        Self::one_file(dir, "protocol = \"relp\"\n")
    }

    fn one_file(dir: &Path, keys: &str) -> Result<Self> {
        let port = http::free_port()?;
        let config = format!("{}{}", source(port, keys), output("all", &dir.join("out/all.log")));
        Ok(Self { running: Running::Weir(Weir::start(dir, &config)?), port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn process(&self) -> Process {
        match &self.running {
            Running::Weir(weir) => weir.process(),
            Running::Other(other) => other.0.process(),
        }
    }

    pub(super) fn weir(&self) -> Result<&Weir> {
        match &self.running {
            Running::Weir(weir) => Ok(weir),
            Running::Other(_) => anyhow::bail!("this is not weir"),
        }
    }

    /// Returns the records that weir has received, and the datagrams that it counts as lost.
    pub(super) fn received(&self) -> Result<(u64, u64)> {
        let ledger = self.weir()?.ledger()?;
        let book = &ledger["sources"][0]["book"];
        let number = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
        Ok((number(&book["records"]), number(&book["discarded"]["receive_buffer"])))
    }

    /// Returns whether it may have written this many messages: weir reports that, while only the
    /// files of the others show it.
    pub(super) fn is_settled(&self, count: u64) -> Result<bool> {
        let Running::Weir(weir) = &self.running else { return Ok(true) };
        let ledger = weir.ledger()?;
        let outputs = ledger["cursors"].as_array().context("no cursors in the ledger")?;
        let delivered = outputs.iter().filter_map(|output| output["book"]["delivered"].as_u64());
        Ok(delivered.sum::<u64>() >= count)
    }
}

pub(super) fn source(port: u16, keys: &str) -> String {
    format!("[source.syslog]\ntype = \"syslog\"\nlisten = \"127.0.0.1:{port}\"\n{keys}")
}

pub(super) fn output(name: &str, path: &Path) -> String {
    format!("[output.{name}]\ntype = \"file\"\npath = \"{}\"\nfsync = \"1s\"\n", path.display())
}

fn file_of(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("out/f{number}.log"))
}

fn weir_files(dir: &Path, order: Order) -> String {
    let mut config = String::new();
    for number in 0..=super::PROGRAMS {
        config += &output(&format!("f{number}"), &file_of(dir, number));
    }
    for (index, (condition, number)) in rules(order).iter().enumerate() {
        let when = match condition {
            Condition::Pattern(pattern) => format!("/{pattern}/"),
            Condition::Program(program) => format!("app_name:{program}"),
        };
        // Writing to a string cannot fail.
        let _ = write!(
            config,
            "[[rule]]\nname = \"r{index}\"\nwhen = '{when}'\nto = [\"f{number}\"]\nfinal = true\n"
        );
    }
    config
}

fn syslog_ng(dir: &Path, order: Order, port: u16) -> String {
    let mut config = format!(
        "@version: 3.38\noptions {{ keep-hostname(yes); chain-hostnames(no); use-dns(no); stats-freq(0); }};\n\
         source s {{ network(ip(\"127.0.0.1\") port({port}) transport(\"tcp\") \
         max-connections(20) log-fetch-limit(1000) log-iw-size(20000)); }};\n"
    );
    for number in 0..=super::PROGRAMS {
        let path = file_of(dir, number);
        let _ = writeln!(
            config,
            "destination f{number} {{ file(\"{}\" template(\"$MSG\\n\") fsync(no) \
             log-fifo-size(400000)); }};",
            path.display()
        );
    }
    for (index, (condition, number)) in rules(order).iter().enumerate() {
        let filter = match condition {
            Condition::Pattern(pattern) => {
                format!("match('{pattern}' value(\"MESSAGE\") type(\"pcre\"))")
            }
            Condition::Program(program) => {
                format!("program(\"{program}\" type(\"string\"))")
            }
        };
        let _ = write!(
            config,
            "filter r{index} {{ {filter}; }};\nlog {{ source(s); filter(r{index}); \
             destination(f{number}); flags(final,flow-control); }};\n"
        );
    }
    config
}

fn rsyslog(dir: &Path, order: Order, port: u16) -> String {
    let mut config = format!(
        "global(workDirectory=\"{}\")\n\
         module(load=\"imptcp\")\ninput(type=\"imptcp\" address=\"127.0.0.1\" port=\"{port}\")\n\
         template(name=\"line\" type=\"string\" string=\"%msg:2:$%\\n\")\n",
        dir.display()
    );
    for (condition, number) in rules(order) {
        let path = file_of(dir, number);
        let condition = match condition {
            // Extended regular expressions, as for the others.
            Condition::Pattern(pattern) => format!("re_match($msg, '{pattern}')"),
            Condition::Program(program) => format!("$programname == '{program}'"),
        };
        let _ = write!(
            config,
            "if {condition} then {{\n  action(type=\"omfile\" file=\"{}\" template=\"line\" \
             asyncWriting=\"off\")\n  stop\n}}\n",
            path.display()
        );
    }
    config
}
