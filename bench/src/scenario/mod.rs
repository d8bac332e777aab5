//! The scenarios: one list, one function each.

mod agent;
pub(crate) mod backlog;
mod bulk;
mod isolation;
pub(crate) mod journal;
mod loggregator;
mod noisy;
mod paced;
mod peer;
mod recent;
mod rules;
mod store;
mod syslog;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::machine::Machine;
use crate::report::{self, Outcome};

/// Options of all scenarios.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Number of runs of a bulk scenario; the median counts.
    #[arg(long, default_value_t = 3)]
    pub(crate) runs: usize,
    /// Fraction of the full length, for a quick look; results below 1 are not recorded.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// A `VictoriaLogs` binary, for `store-peer`; without one nothing is compared.
    #[arg(long, env = "WEIR_BENCH_PEER", value_name = "FILE")]
    pub(crate) peer: Option<PathBuf>,
    /// A `Fluent Bit` binary, for `tail-peer`; without one nothing is compared.
    #[arg(long, env = "WEIR_BENCH_AGENT", value_name = "FILE")]
    pub(crate) agent: Option<PathBuf>,
    /// A directory with samples of real logs (`*.log`), for `store-peer`.
    #[arg(long, env = "WEIR_BENCH_LOGS", value_name = "DIR")]
    pub(crate) logs: Option<PathBuf>,
    /// Do not record the results.
    #[arg(long)]
    pub(crate) no_record: bool,
}

impl Options {
    /// Scales a number of lines or seconds.
    pub(crate) fn scaled(&self, full: u64) -> u64 {
        ((full as f64 * self.scale) as u64).max(1)
    }
}

struct Scenario {
    name: &'static str,
    what: &'static str,
    run: fn(&Options) -> Result<Outcome>,
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "tail-hec-gzip",
        what: "1,000,000 docker-json lines of 1 KiB to a HEC collector, gzip",
        run: bulk::hec_gzip,
    },
    Scenario { name: "tail-hec-plain", what: "the same, not compressed", run: bulk::hec_plain },
    Scenario {
        name: "tail-blackhole-docker",
        what: "docker-json lines of 216 bytes to a blackhole output",
        run: bulk::blackhole_docker,
    },
    Scenario {
        name: "tail-blackhole-raw",
        what: "raw lines of 216 bytes to a blackhole output",
        run: bulk::blackhole_raw,
    },
    Scenario {
        name: "tail-paced",
        what: "10,000 lines/s of 1 KiB, each written separately, gzip and TLS",
        run: paced::paced,
    },
    Scenario {
        name: "tail-slow",
        what: "1,000 and 50,000 lines/s of 100 and 1,000 bytes to a blackhole output",
        run: paced::slow,
    },
    Scenario {
        name: "tail-peer",
        what: "the scenarios of tailing with weir and with Fluent Bit (--agent)",
        run: agent::tail_peer,
    },
    Scenario {
        name: "rules-simple",
        what: "1 to 1,000 rules with rare literals, 216 byte lines to a blackhole output",
        run: rules::simple,
    },
    Scenario {
        name: "rules-real",
        what: "the same with rules as operators write them",
        run: rules::real,
    },
    Scenario {
        name: "syslog-rules",
        what: "100 rules on 10 TCP connections to 11 files, next to syslog-ng and rsyslog",
        run: syslog::rules_scenario,
    },
    Scenario {
        name: "syslog-60k",
        what: "60,000 messages/s with the same rules",
        run: syslog::paced_scenario,
    },
    Scenario {
        name: "syslog-udp",
        what: "100,000 and 500,000 messages/s over UDP",
        run: syslog::udp_scenario,
    },
    Scenario {
        name: "relp",
        what: "acknowledged messages over 10 RELP connections",
        run: syslog::relp_scenario,
    },
    Scenario {
        name: "syslog-connections",
        what: "10,000 idle TLS connections, and all of them connecting again at once",
        run: syslog::connections_scenario,
    },
    Scenario {
        name: "outputs",
        what: "500 file outputs, and 100 added and removed under load",
        run: syslog::outputs_scenario,
    },
    Scenario {
        name: "store",
        what: "3,000,000 JSON lines from a file to the store, and queries on them",
        run: store::store,
    },
    Scenario {
        name: "store-peer",
        what: "the same compared to VictoriaLogs (--peer), and real logs on disk (--logs)",
        run: peer::store_peer,
    },
    Scenario { name: "tail-idle", what: "1,000 files, nothing written", run: paced::idle },
    Scenario {
        name: "tail-quiet",
        what: "memory of 50,000 quiet files, and the cost of removing them",
        run: paced::quiet,
    },
    Scenario { name: "journal", what: "append on stable storage", run: journal::journal },
    Scenario {
        name: "backlog",
        what: "a start with 100 GB of waiting journal",
        run: backlog::backlog,
    },
    Scenario {
        name: "isolation",
        what: "one output hung for a minute next to a healthy one, then a full buffer",
        run: isolation::isolation,
    },
    Scenario {
        name: "noisy",
        what: "one application at 100,000 lines/s, 99 at 2/s, a slow output that drops",
        run: noisy::noisy,
    },
    Scenario {
        name: "recent",
        what: "1,000 recent logs of one among 10,000 applications",
        run: recent::recent,
    },
    Scenario {
        name: "router",
        what: "envelopes of Loggregator to two nozzles and a reader of each application",
        run: loggregator::router_scenario,
    },
    Scenario {
        name: "router-handbook",
        what: "the tables of Loggregator's handbook: rates, and lengths of logs",
        run: loggregator::handbook_scenario,
    },
    Scenario {
        name: "router-hour",
        what: "a row of these tables for an hour",
        run: loggregator::hour_scenario,
    },
    Scenario {
        name: "router-latency",
        what: "10,000 envelopes/s, time from sending one to reading it",
        run: loggregator::latency_scenario,
    },
    Scenario {
        name: "drains",
        what: "10,000 drains over TLS, a tenth of them dead for a while",
        run: loggregator::drains_scenario,
    },
    Scenario {
        name: "drains-idle",
        what: "10,000 drains and 500 readers, nothing sent",
        run: loggregator::idle_scenario,
    },
];

/// Runs a scenario by name, `all` of them, or lists them.
pub(crate) fn run(name: Option<&str>, options: &Options) -> Result<()> {
    let Some(name) = name else {
        for scenario in SCENARIOS {
            println!("{:22} {}", scenario.name, scenario.what);
        }
        return Ok(());
    };
    let chosen: Vec<&Scenario> =
        SCENARIOS.iter().filter(|s| name == "all" || s.name == name).collect();
    ensure!(!chosen.is_empty(), "unknown scenario {name}; run without a name to list all");
    let machine = Machine::here();
    eprintln!("{}, {} cores, Linux {}", machine.processor, machine.cores, machine.kernel);
    let mut missed = Vec::new();
    for scenario in chosen {
        eprintln!("running {}", scenario.name);
        let outcome = (scenario.run)(options).with_context(|| scenario.name)?;
        println!("{}", outcome.page(scenario.name));
        if !options.no_record && options.scale >= 1.0 && !outcome.measurements.is_empty() {
            report::record(scenario.name, &outcome)?;
        }
        if !outcome.is_met() {
            missed.push(scenario.name);
        }
    }
    ensure!(missed.is_empty(), "targets missed in: {}", missed.join(", "));
    Ok(())
}
