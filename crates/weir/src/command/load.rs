//! `weir load file`: writes numbered lines at a known rate. `weir load demo`: writes the logs of a
//! small web shop.

use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;
use weir_host::units::group_digits;
use weir_measure::demo::{self, DemoPlan};
use weir_measure::load::{self, Content, Layout, LineFormat, LoadPlan, RotateWhen, Rotation};

use crate::cli::{LoadContent, LoadDemoArgs, LoadFileArgs, LoadFormat, Output, Rate, RotationKind};
use crate::exit::{Exit, ExitError};
use crate::term::{note, print_json, print_text};

/// Time between progress lines when stderr is not a terminal.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Runs the command.
pub(crate) fn file(args: &LoadFileArgs) -> Result<Exit> {
    let plan = plan(args)?;
    let is_interrupted = crate::signal::interrupted()?;
    note(&format!("writing {}", described(&plan)));
    let mut progress = Progress::new(is_interrupted.clone());
    let report = load::run(&plan, |lines| progress.update(lines))
        .with_context(|| format!("failed to write in {}", plan.dir.display()))?;
    match args.output {
        Output::Text => print_text(&report.to_string())?,
        Output::Json => {
            print_json(&format!("{:#}\n", json!({ "schema": "weir.load.v1", "report": report })))?
        }
    };
    // Without a limit, Ctrl-C is the expected way to end it.
    let has_bound = plan.lines.is_some() || plan.duration.is_some();
    let was_cut_short = has_bound && is_interrupted.load(Ordering::Relaxed);
    Ok(if was_cut_short { Exit::Interrupted } else { Exit::Ok })
}

/// Runs `weir load demo`.
pub(crate) fn demo(args: &LoadDemoArgs) -> Result<Exit> {
    let plan = DemoPlan {
        dir: args.dir.clone(),
        requests_per_second: f64::from(args.rate),
        backfill: args.backfill,
        duration: args.duration,
        seed: args.seed,
    };
    let is_interrupted = crate::signal::interrupted()?;
    let until = if args.duration.is_none() { " until Ctrl-C" } else { "" };
    note(&format!("writing the logs of a web shop in {}{until}", args.dir.display()));
    let mut progress = Progress::new(is_interrupted.clone());
    let lines = demo::run(&plan, |lines| progress.update(lines))
        .with_context(|| format!("failed to write in {}", args.dir.display()))?;
    note(&format!("{} lines written", group_digits(lines)));
    let was_cut_short = args.duration.is_some() && is_interrupted.load(Ordering::Relaxed);
    Ok(if was_cut_short { Exit::Interrupted } else { Exit::Ok })
}

fn plan(args: &LoadFileArgs) -> Result<LoadPlan> {
    if args.rate == Rate::Max && args.lines.is_none() && args.duration.is_none() {
        let message = "--rate max without a limit would fill the disk: add --lines or --duration";
        return Err(ExitError::with(Exit::Usage, message));
    }
    Ok(LoadPlan {
        layout: if args.containers { Layout::Containers } else { Layout::Flat },
        format: match args.format {
            LoadFormat::Raw => LineFormat::Raw,
            LoadFormat::Docker => LineFormat::Docker,
            LoadFormat::Cri => LineFormat::Cri,
            LoadFormat::Json => LineFormat::Json,
        },
        streams: match args.files {
            1 => vec![args.name.clone()],
            n => (0..n).map(|i| format!("{}-{i}", args.name)).collect(),
        },
        lines_per_second: match args.rate {
            Rate::Max => None,
            Rate::PerSecond(rate) => Some(rate),
        },
        lines: args.lines,
        duration: args.duration,
        body_bytes: args.size,
        content: match args.content {
            LoadContent::Plain => Content::Plain,
            LoadContent::Escapes => Content::Escapes,
            LoadContent::InvalidUtf8 => Content::InvalidUtf8,
        },
        partial: args.partial,
        interleave: args.interleave,
        rotation: rotation(args),
        line_by_line: args.line_by_line,
        first_seq: args.first,
        seed: args.seed,
        ..LoadPlan::new(&args.dir)
    })
}

fn rotation(args: &LoadFileArgs) -> Option<Rotation> {
    let by_size = args.rotate_size.map(RotateWhen::Bytes);
    let when = by_size.or_else(|| args.rotate_every.map(RotateWhen::Every))?;
    Some(match args.rotation {
        RotationKind::Rename => Rotation::Rename { when, keep: args.keep },
        RotationKind::Kubelet => Rotation::Kubelet { when, keep: args.keep },
        RotationKind::Copytruncate => Rotation::CopyTruncate { when },
    })
}

fn described(plan: &LoadPlan) -> String {
    let rate = match plan.lines_per_second {
        Some(rate) => format!("{rate} lines/s"),
        None => "as fast as possible".to_owned(),
    };
    let until = match (plan.lines, plan.duration) {
        (None, None) => " until Ctrl-C",
        _ => "",
    };
    let files: Vec<_> = plan.streams.iter().take(3).map(|s| plan.path(s)).collect();
    let files: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
    let more = if plan.streams.len() > 3 { " ..." } else { "" };
    format!("{}{more}: {rate}{until}", files.join(", "))
}

/// Shows progress: in place on a terminal, otherwise as an occasional line.
struct Progress {
    is_interrupted: Arc<AtomicBool>,
    interval: Duration,
    last: Instant,
    is_terminal: bool,
}

impl Progress {
    fn new(is_interrupted: Arc<AtomicBool>) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let interval = if is_terminal { Duration::from_secs(1) } else { PROGRESS_INTERVAL };
        Self { is_interrupted, interval, last: Instant::now(), is_terminal }
    }

    fn update(&mut self, lines: u64) -> ControlFlow<()> {
        if self.is_interrupted.load(Ordering::Relaxed) {
            if self.is_terminal {
                note("");
            }
            return ControlFlow::Break(());
        }
        if self.last.elapsed() >= self.interval {
            self.last = Instant::now();
            let text = format!("{} lines", group_digits(lines));
            if self.is_terminal { crate::term::note_in_place(&text) } else { note(&text) }
        }
        ControlFlow::Continue(())
    }
}
