//! Files that describe targets, in the format of Loggregator's own scraper: YAML, with one target
//! on this machine per file.
//!
//! Invariant: an invalid file is counted and reported, and does not affect other targets; its
//! target is not scraped.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_codec::FlatYaml;
use weir_host::units;

use super::limits::TARGET_FILE_BYTES_MAX;
use super::paths;
use super::{PrometheusSource, ScrapeTarget};
use crate::config::{HttpAuth, TlsSettings};
use crate::stats::{CollectStats, ErrorCounts};

/// Minimum interval, so that a typo does not keep a processor busy.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Reads all files of a source, and adds their targets by path. `broken` are the files that were
/// invalid the last time.
pub(super) fn read_all(
    source: &PrometheusSource,
    targets: &mut HashMap<String, ScrapeTarget>,
    broken: &mut BTreeSet<String>,
    collected: &CollectStats,
    errors: &ErrorCounts,
) {
    let mut still_broken = BTreeSet::new();
    for pattern in &source.target_files {
        for path in paths::matching(pattern) {
            let shown = path.display().to_string();
            match read(&path, source) {
                Ok(target) => targets.extend(target.map(|target| (shown, target))),
                Err(problem) => {
                    errors.count("target_file", &format!("{shown}: {problem}"));
                    if collected.set_problem(&shown, &problem) {
                        tracing::warn!(path = shown, problem, "invalid target file");
                    }
                    still_broken.insert(shown);
                }
            }
        }
    }
    // Files that are gone are no longer a problem either.
    for fixed in broken.difference(&still_broken) {
        collected.recovered(fixed);
    }
    *broken = still_broken;
}

/// Reads the target described by a file; `None` if it should not be scraped.
fn read(path: &Path, source: &PrometheusSource) -> Result<Option<ScrapeTarget>, String> {
    let len = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if len > TARGET_FILE_BYTES_MAX {
        return Err(format!("exceeds {TARGET_FILE_BYTES_MAX} bytes"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    target(&text, source)
}

fn target(text: &str, source: &PrometheusSource) -> Result<Option<ScrapeTarget>, String> {
    let entries = FlatYaml::parse(text).map_err(|error| error.to_string())?;
    let value = |key: &str| entries.iter().rev().find(|(name, _)| name == key).map(|(_, v)| v);
    let text = |key: &str| match value(key) {
        Some(FlatYaml::Text(text)) => Ok(Some(text.as_str())),
        Some(FlatYaml::Null) | None => Ok(None),
        Some(FlatYaml::Map(_) | FlatYaml::Other) => Err(format!("{key} is not a string")),
    };
    let map = |key: &str| match value(key) {
        Some(FlatYaml::Map(map)) => Ok(map.clone()),
        Some(FlatYaml::Null) | None => Ok(Vec::new()),
        Some(FlatYaml::Text(_) | FlatYaml::Other) => Err(format!("{key} is not a map of strings")),
    };
    let port = text("port")?.and_then(|port| port.parse::<u16>().ok()).filter(|port| *port > 0);
    let port = port.ok_or("port is missing or invalid")?;
    let scheme = text("scheme")?.unwrap_or("http");
    if !matches!(scheme, "http" | "https") {
        return Err(format!("scheme {scheme:?} is not http or https"));
    }
    let Some(interval) = interval(text("scrape_interval")?, source.interval)? else {
        return Ok(None);
    };
    let own_path = |key: &str, default: &Option<PathBuf>| {
        Ok::<_, String>(text(key)?.map(PathBuf::from).or_else(|| default.clone()))
    };
    let tls = TlsSettings {
        ca_file: own_path("ca_path", &source.tls.ca_file)?,
        cert_file: own_path("client_cert_path", &source.tls.cert_file)?,
        key_file: own_path("client_key_path", &source.tls.key_file)?,
        server_name: text("server_name")?
            .map(str::to_owned)
            .or_else(|| source.tls.server_name.clone()),
        insecure_skip_verify: source.tls.insecure_skip_verify,
    };
    let path = text("path")?.unwrap_or("/metrics").trim_start_matches('/');
    Ok(Some(ScrapeTarget {
        url: format!("{scheme}://127.0.0.1:{port}/{path}"),
        source_id: text("source_id")?.unwrap_or(&source.source_id).to_owned(),
        instance_id: text("instance_id")?.unwrap_or_default().to_owned(),
        headers: map("headers")?,
        auth: HttpAuth::None,
        labels: map("labels")?,
        interval,
        timeout: source.timeout.min(interval),
        tls,
    }))
}

/// Parses an interval; `None` if it is not positive, which means never.
fn interval(text: Option<&str>, default: Duration) -> Result<Option<Duration>, String> {
    let Some(text) = text else { return Ok(Some(default)) };
    if text.starts_with('-') || text.trim_end_matches(|c: char| c.is_ascii_alphabetic()) == "0" {
        return Ok(None);
    }
    match units::parse_duration(text) {
        Ok(interval) if interval.is_zero() => Ok(None),
        Ok(interval) => Ok(Some(interval.max(INTERVAL_MIN))),
        Err(_) => Err(format!("scrape_interval {text:?} is not a duration such as 15s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> PrometheusSource {
        PrometheusSource {
            targets: Vec::new(),
            target_files: Vec::new(),
            rescan_interval: Duration::from_secs(30),
            source_id: "vm".to_owned(),
            interval: Duration::from_secs(15),
            timeout: Duration::from_secs(10),
            tls: TlsSettings { ca_file: Some("/ca.pem".into()), ..TlsSettings::default() },
            body_bytes_max: 1 << 20,
            in_flight_bytes_max: 1 << 20,
            tags: Vec::new(),
        }
    }

    #[test]
    fn a_file_of_the_original_is_understood() {
        let file = "port: 14824\nsource_id: \"metron\"\ninstance_id: 7\nscheme: https\n\
                    server_name: metron\npath: /metrics/prometheus\nscrape_interval: 1m30s\n\
                    headers:\n  Authorization: lemons\nlabels:\n  origin: loggregator.metron\n\
                    client_key_path: /key.pem\nclient_cert_path: /cert.pem\nunknown: [1]\n";
        let found = target(file, &source()).unwrap().unwrap();
        assert_eq!(found.url, "https://127.0.0.1:14824/metrics/prometheus");
        assert_eq!((found.source_id.as_str(), found.instance_id.as_str()), ("metron", "7"));
        assert_eq!(found.interval, Duration::from_secs(90));
        assert_eq!(found.headers, [("Authorization".to_owned(), "lemons".to_owned())]);
        assert_eq!(found.labels, [("origin".to_owned(), "loggregator.metron".to_owned())]);
        assert_eq!(found.tls.server_name.as_deref(), Some("metron"));
        assert_eq!(found.tls.ca_file.as_deref(), Some(Path::new("/ca.pem")));
        assert_eq!(found.tls.key_file.as_deref(), Some(Path::new("/key.pem")));
        let least = target("port: 80\n", &source()).unwrap().unwrap();
        assert_eq!(
            (least.url.as_str(), least.source_id.as_str()),
            ("http://127.0.0.1:80/metrics", "vm")
        );
        assert_eq!(least.interval, Duration::from_secs(15));
    }

    #[test]
    fn targets_that_cannot_be_scraped_are_errors_or_skipped() {
        for interval in ["0", "0s", "-1s"] {
            let file = format!("port: 80\nscrape_interval: {interval}\n");
            assert_eq!(target(&file, &source()), Ok(None), "{interval}");
        }
        for file in [
            "source_id: a\n",
            "port: 0\n",
            "port: 70000\n",
            "port: 80\nscheme: ftp\n",
            "port: 80\nscrape_interval: soon\n",
            "port: 80\nlabels: a\n",
            "port: 80\nsource_id: [a]\n",
            "port 80\n",
        ] {
            assert!(target(file, &source()).is_err(), "{file}");
        }
    }
}
