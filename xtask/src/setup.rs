//! Sets up a machine: what each command needs in addition to rustup, and why.
//!
//! Invariants: a machine that has everything is not changed and no network is used; what cannot be
//! installed is reported with its reason and the command that would install it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::paths;
use crate::shell::{cargo, output, run, succeeds};

/// A Debian package that some command needs.
struct Package {
    name: &'static str,
    /// A file of the package; a name without a path is looked up in PATH.
    probe: &'static str,
    reason: &'static str,
}

/// Packages required for building.
const FOR_BUILD: &[Package] = &[
    Package { name: "gcc", probe: "cc", reason: "links, and compiles the C parts of `ring` (TLS)" },
    Package {
        name: "libc6-dev",
        probe: "/usr/include/stdlib.h",
        reason: "headers for the C parts of `ring` (TLS)",
    },
];

/// Packages required for the fast gzip; without them weir is built with the portable one.
const FOR_FAST_GZIP: &[Package] = &[
    Package { name: "nasm", probe: "nasm", reason: "assembles ISA-L, the fast gzip" },
    Package { name: "make", probe: "make", reason: "builds ISA-L and jemalloc" },
    Package { name: "autoconf", probe: "autoconf", reason: "configures ISA-L" },
    Package { name: "automake", probe: "automake", reason: "configures ISA-L" },
    Package { name: "libtool", probe: "libtoolize", reason: "configures ISA-L" },
];

/// Additional packages required by the tests.
const FOR_TESTS: &[Package] = &[
    Package {
        name: "strace",
        probe: "strace",
        reason: "tests that make selected system calls of the running binary fail",
    },
    Package { name: "golang-go", probe: "go", reason: "tests with docker's own json-file logger" },
    Package { name: "nghttp2-client", probe: "h2load", reason: "sends with HTTP/2 in tests" },
    Package { name: "mount", probe: "mount", reason: "tests of a full and a read-only disk" },
];

/// Packages required for building the page.
const FOR_PAGE: &[Package] = &[
    Package { name: "nodejs", probe: "node", reason: "builds and tests the page" },
    Package {
        name: "npm",
        probe: "npm",
        reason: "installs the packages that the page is built from",
    },
];

/// The browser that the page is tested in.
const BROWSER: Package =
    Package { name: "chromium", probe: "chromium", reason: "tests the page in a browser" };

/// Additional packages required for fuzzing.
const FOR_FUZZING: &[Package] =
    &[Package { name: "g++", probe: "c++", reason: "libFuzzer is C++" }];

/// Installs everything that a build needs. Returns additional arguments for cargo: if the fast gzip
/// cannot be built, to leave it out.
pub(crate) fn for_build() -> Result<&'static [&'static str]> {
    install(FOR_BUILD)?;
    if !cfg!(target_arch = "x86_64") {
        return Ok(&["--no-default-features"]);
    }
    match install(FOR_FAST_GZIP) {
        Ok(()) => Ok(&[]),
        Err(error) => {
            eprintln!("building with the portable gzip, which is three times slower: {error:#}");
            Ok(&["--no-default-features"])
        }
    }
}

/// Installs everything that formatting and lints need.
pub(crate) fn for_checks() -> Result<()> {
    component("fmt", "rustfmt")?;
    component("clippy", "clippy")
}

/// Installs everything that the tests need; returns environment variables with their paths.
pub(crate) fn for_tests() -> Result<Vec<(&'static str, PathBuf)>> {
    for_checks()?;
    install(FOR_TESTS)?;
    Ok(vec![
        ("PROMTOOL", promtool()?),
        ("WEIR_PYTHON", python()?),
        ("WEIR_SYSLOG_SERVERS", syslog_servers()?),
    ])
}

/// Installs everything that building the page needs.
pub(crate) fn for_page() -> Result<()> {
    install(FOR_PAGE)
}

/// Returns the browser that the page is tested in, installed if missing.
pub(crate) fn browser() -> Result<PathBuf> {
    if let Some(chosen) = std::env::var_os("CHROMIUM") {
        return Ok(PathBuf::from(chosen));
    }
    install(&[BROWSER])?;
    lookup(BROWSER.probe).context("chromium is not in PATH")
}

/// Installs everything that fuzzing needs, except [`cargo_fuzz`].
pub(crate) fn for_fuzzing() -> Result<()> {
    for_build()?;
    install(FOR_FUZZING)?;
    if !succeeds(Command::new("rustc").args(["+nightly", "--version"])) {
        eprintln!("missing: a nightly toolchain (sanitizers are not in stable)");
        run(Command::new("rustup").args(["toolchain", "install", "nightly", "--profile=minimal"]))
            .context("fuzzing needs a nightly toolchain")?;
    }
    Ok(())
}

/// Returns `cargo fuzz` with the nightly toolchain, installed under `.tools` if missing.
pub(crate) fn cargo_fuzz() -> Result<Command> {
    let tools = paths::root().join(".tools");
    let binary = tools.join("bin/cargo-fuzz");
    if !binary.is_file() && !in_path("cargo-fuzz") {
        eprintln!("missing: cargo-fuzz (builds fuzz targets and starts them)");
        let root = tools.to_string_lossy().into_owned();
        run(cargo().args(["install", "--locked", "--root", &root, "cargo-fuzz"]))?;
    }
    let program = if binary.is_file() { binary } else { PathBuf::from("cargo-fuzz") };
    let mut command = Command::new(program);
    // The proxy of rustup reads this; cargo-fuzz runs the plain `cargo` in PATH.
    command.env("RUSTUP_TOOLCHAIN", "nightly").env_remove("CARGO").arg("fuzz");
    Ok(command)
}

fn component(subcommand: &str, component: &str) -> Result<()> {
    if succeeds(cargo().args([subcommand, "--version"])) {
        return Ok(());
    }
    run(Command::new("rustup").args(["component", "add", component])).with_context(|| {
        format!("`cargo {subcommand}` is missing; install it: `rustup component add {component}`")
    })
}

fn install(packages: &[Package]) -> Result<()> {
    let missing: Vec<&Package> = packages.iter().filter(|p| !is_there(p.probe)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|p| p.name).collect();
    for package in &missing {
        eprintln!("missing: {} ({})", package.name, package.reason);
    }
    if !is_root() || !in_path("apt-get") {
        bail!(
            "packages can only be installed as root on Debian; install them with: \
             apt-get install {}",
            names.join(" ")
        );
    }
    let mut apt = apt_get(&["install", "--yes", "--no-install-recommends"]);
    apt.args(&names);
    if run(&mut apt).is_ok() {
        return Ok(());
    }
    // The package lists are missing (fresh image) or outdated.
    run(&mut apt_get(&["update"]))?;
    run(&mut apt)
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet").args(arguments);
    command
}

/// Prometheus's own checker of metrics pages.
fn promtool() -> Result<PathBuf> {
    if let Some(found) = lookup("promtool") {
        return Ok(found);
    }
    let unpacked = unpack("prometheus", &["prometheus"], "checks the page at /metrics")?;
    Ok(unpacked.join("usr/bin/promtool"))
}

/// Packages of the syslog servers that weir is compared with, and the libraries that they need
/// beyond the base system.
const SYSLOG_SERVERS: &[&str] = &[
    "libestr0",
    "libfastjson4",
    "libglib2.0-0",
    "libivykis0",
    "libjson-c5",
    "liblognorm5",
    "libnet1",
    "libpcre3",
    "librelp0",
    "libwrap0",
    "rsyslog",
    "rsyslog-relp",
    "syslog-ng-core",
];

/// Returns the directory with the syslog servers that weir is compared with, and that send to it in
/// tests.
pub(crate) fn syslog_servers() -> Result<PathBuf> {
    unpack("syslog", SYSLOG_SERVERS, "other syslog servers, for comparison and as senders")
}

/// Unpacks packages below `.tools`: installing them would also start a server, or replace one.
fn unpack(name: &str, packages: &[&str], reason: &str) -> Result<PathBuf> {
    let unpacked = paths::root().join(".tools").join(name);
    if unpacked.is_dir() {
        return Ok(unpacked);
    }
    eprintln!("missing: {} ({reason})", packages.join(", "));
    let downloads = unpacked.with_extension("download");
    std::fs::create_dir_all(&downloads)?;
    let mut download = apt_get(&["download"]);
    download.args(packages).current_dir(&downloads);
    if run(&mut download).is_err() {
        run(&mut apt_get(&["update"]))?;
        run(&mut download).with_context(|| format!("cannot download {}", packages.join(", ")))?;
    }
    let partial = unpacked.with_extension("partial");
    for entry in std::fs::read_dir(&downloads)? {
        let package = entry?.path();
        run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&partial))?;
    }
    std::fs::remove_dir_all(downloads)?;
    std::fs::rename(partial, &unpacked)?;
    Ok(unpacked)
}

/// Python packages of other engines, which read what weir stores, and of third-party clients.
const THIRD_PARTY: &[&str] = &[
    "chdb-core==26.9.0",
    "datadog-api-client==2.62.0",
    "duckdb==2.0.0",
    "grpcio==1.81.0",
    "websocket-client==1.9.2",
];

/// Returns a Python of the repository's own, under `.tools`, with these packages.
fn python() -> Result<PathBuf> {
    let home = paths::root().join(".tools/python");
    let (program, installed) = (home.join("bin/python"), home.join("installed"));
    let wanted = THIRD_PARTY.join("\n");
    if std::fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(program);
    }
    install(&[Package {
        name: "python3-venv",
        probe: "python3",
        reason: "tests with third-party engines and clients",
    }])?;
    run(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
    run(Command::new(&program).args(["-m", "pip", "install", "--quiet"]).args(THIRD_PARTY))?;
    std::fs::write(installed, wanted)?;
    Ok(program)
}

fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

fn is_there(probe: &str) -> bool {
    if probe.starts_with('/') { Path::new(probe).exists() } else { in_path(probe) }
}

fn in_path(program: &str) -> bool {
    lookup(program).is_some()
}

fn lookup(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
