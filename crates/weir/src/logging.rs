//! Weir's own log on stderr: JSON lines for machines, short lines for people.
//!
//! Invariants: each log entry is one line, and contains no terminal control characters except the
//! color of its level; repeated messages are suppressed by the component that logs them, not here.

use std::io::{self, IsTerminal as _};
use std::str::FromStr as _;

use anyhow::Result;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use weir_host::terminal::printable;
use weir_host::units::format_rfc3339;
use weir_host::{Clock as _, RealClock};

use crate::config::{LogFormat, LogPlan};
use crate::exit::{Exit, ExitError};
use crate::term::{ColorChoice, Paint, Style};

/// The variable that overrides `log.level`.
const VARIABLE: &str = "WEIR_LOG";

/// Whether the log is in text form.
pub(crate) fn is_text(plan: &LogPlan) -> bool {
    match plan.format {
        LogFormat::Text => true,
        LogFormat::Json => false,
        LogFormat::Auto => io::stderr().is_terminal(),
    }
}

/// Starts the log.
pub(crate) fn init(plan: &LogPlan, color: ColorChoice) -> Result<()> {
    let filter = filter(plan.level, std::env::var(VARIABLE).ok().as_deref())?;
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr).log_internal_errors(false);
    // Only fails if the log was already started in this process.
    let _already_started = if is_text(plan) {
        let short = ShortFormat { clock: RealClock::new(), paint: Paint::for_stderr(color) };
        registry.with(layer.with_ansi(false).event_format(short)).try_init()
    } else {
        let layer = layer.json().flatten_event(true).with_timer(FullTime(RealClock::new()));
        registry.with(layer.with_current_span(false).with_span_list(false)).try_init()
    };
    Ok(())
}

/// `info`, or `info,weir_journal=debug`.
fn filter(level: Level, variable: Option<&str>) -> Result<Targets> {
    let Some(text) = variable.filter(|text| !text.trim().is_empty()) else {
        // Libraries warn about what a client does, for each connection: it could fill the log.
        let of_libraries = if level > Level::INFO { level } else { Level::ERROR };
        return Ok(Targets::new().with_default(of_libraries).with_target("weir", level));
    };
    Targets::from_str(text).map_err(|error| {
        let message = format!(
            "{VARIABLE}={text:?} is not a log filter ({error}); write a level such as \"debug\", or \"info,weir_journal=debug\""
        );
        ExitError::with(Exit::ConfigInvalid, message)
    })
}

/// `20:57:26.123 WARN  message key=value`: without the date, which is obvious on a terminal.
struct ShortFormat {
    clock: RealClock,
    paint: Paint,
}

impl<S, N> FormatEvent<S, N> for ShortFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let time = format_rfc3339(self.clock.unix_ns());
        let level = *event.metadata().level();
        let word = format!("{level:<5}");
        let word = match level {
            Level::ERROR => self.paint.paint(Style::Bad, &word),
            Level::WARN => self.paint.paint(Style::Warn, &word),
            Level::INFO => self.paint.paint(Style::Good, &word),
            Level::DEBUG | Level::TRACE => word,
        };
        write!(writer, "{} {word} ", time.get(11..23).unwrap_or(&time))?;
        let mut text = String::new();
        context.field_format().format_fields(Writer::new(&mut text), event)?;
        writeln!(writer, "{}", printable(&text))
    }
}

/// RFC 3339 in UTC.
struct FullTime(RealClock);

impl FormatTime for FullTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        writer.write_str(&format_rfc3339(self.0.unix_ns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_variable_overrides_configuration() {
        let enabled = |targets: &Targets, level| targets.would_enable("weir_journal", &level);
        let targets = filter(Level::INFO, None).unwrap();
        assert!(enabled(&targets, Level::INFO) && !enabled(&targets, Level::DEBUG));
        assert!(!targets.would_enable("h2::proto", &Level::WARN), "about a client");
        let targets = filter(Level::DEBUG, None).unwrap();
        assert!(targets.would_enable("h2::proto", &Level::DEBUG));
        let targets = filter(Level::ERROR, Some("info,weir_journal=debug")).unwrap();
        assert!(enabled(&targets, Level::DEBUG));
        assert!(!targets.would_enable("weir_pipeline", &Level::DEBUG));
        assert!(filter(Level::INFO, Some("weir_journal=loud")).is_err());
    }
}
