//! The shop: requests, the services that they pass through, and what these log.
//!
//! A request waits for a free worker of its web host and is then served, as in any pool of workers:
//! `duration_ms` is the sum of `queueing_delay_ms` and `service_time_ms`, and the delay grows as
//! the hosts are busy. Incidents come and go: payments fail, one host is slow, traffic doubles.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fastrand::Rng;
use serde_json::{Value, json};
use weir_codec::format_rfc3339_ns;

const SECOND_NS: i64 = 1_000_000_000;
const MS_NS: i64 = 1_000_000;

/// Hosts of the web tier, each with a pool of workers.
const WEB_HOSTS: [&str; 3] = ["web-1", "web-2", "web-3"];
/// Requests per second for which a host has a worker: a fifth of its time is spent on them.
const REQUESTS_PER_WORKER: f64 = 20.0;

/// An incident begins in each of these periods, and takes a part of it.
const INCIDENT_PERIOD_NS: i64 = 120 * SECOND_NS;
const INCIDENT_NS: i64 = 25 * SECOND_NS;

const PRODUCTS: [&str; 6] = ["teapot", "kettle", "saucer", "mug", "sieve", "tray"];

/// An incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Incident {
    /// The provider of payments does not answer.
    PaymentsFail,
    /// One of the web hosts is slow.
    SlowHost,
    /// Traffic is doubled.
    Rush,
}

impl Incident {
    /// Returns the incident at a time, if there is one.
    fn at(time_ns: i64) -> Option<Self> {
        let period = time_ns.div_euclid(INCIDENT_PERIOD_NS);
        let is_on = time_ns.rem_euclid(INCIDENT_PERIOD_NS) >= INCIDENT_PERIOD_NS - INCIDENT_NS;
        is_on.then_some(match period.rem_euclid(3) {
            0 => Self::PaymentsFail,
            1 => Self::SlowHost,
            _ => Self::Rush,
        })
    }
}

/// A line that will have been logged at a time. Lines of one time keep their order.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Logged {
    time_ns: i64,
    number: u64,
    service: &'static str,
    line: Vec<u8>,
}

/// Generates the log lines of the shop.
#[derive(Debug)]
pub(super) struct Shop {
    rng: Rng,
    /// A generator of its own, so that the output does not depend on the division into steps.
    noise_rng: Rng,
    requests_per_second: f64,
    next_request_ns: i64,
    next_noise_ns: i64,
    /// When each worker of each web host is free again.
    workers: [Vec<i64>; WEB_HOSTS.len()],
    waiting: BinaryHeap<Reverse<Logged>>,
    number: u64,
}

/// Fields common to the lines of a request.
struct Request {
    trace_id: String,
    method: &'static str,
    path: String,
    route: &'static str,
    user: String,
}

impl Shop {
    pub(super) fn new(seed: u64, requests_per_second: f64, begin_ns: i64) -> Self {
        let workers = (requests_per_second / REQUESTS_PER_WORKER).ceil().max(1.0) as usize;
        Self {
            rng: Rng::with_seed(seed),
            noise_rng: Rng::with_seed(!seed),
            requests_per_second,
            next_request_ns: begin_ns,
            next_noise_ns: begin_ns,
            workers: std::array::from_fn(|_| vec![begin_ns; workers]),
            waiting: BinaryHeap::new(),
            number: 0,
        }
    }

    /// Calls `log` with the service and text of each line logged before that time, in order.
    pub(super) fn advance(&mut self, until_ns: i64, mut log: impl FnMut(&'static str, &[u8])) {
        while self.next_request_ns < until_ns {
            let at_ns = self.next_request_ns;
            let factor = if Incident::at(at_ns) == Some(Incident::Rush) { 2.2 } else { 1.0 };
            let gap_seconds = exponential(&mut self.rng, 1.0 / (self.requests_per_second * factor));
            self.next_request_ns += (gap_seconds * 1e9) as i64 + 1;
            self.request(at_ns);
        }
        while self.next_noise_ns < until_ns {
            let at_ns = self.next_noise_ns;
            let gap_seconds = exponential(&mut self.noise_rng, 0.25 / self.requests_per_second);
            self.next_noise_ns += (gap_seconds * 1e9) as i64 + 1;
            self.noise(at_ns);
        }
        while self.waiting.peek().is_some_and(|next| next.0.time_ns < until_ns) {
            let Some(Reverse(next)) = self.waiting.pop() else { break };
            log(next.service, &next.line);
        }
    }

    /// Simulates a customer's request, from the gateway to the last service that it reaches.
    fn request(&mut self, at_ns: i64) {
        let request = self.draw_request();
        let host = self.rng.usize(..WEB_HOSTS.len());
        let incident = Incident::at(at_ns);
        let is_slow = incident == Some(Incident::SlowHost) && host == 1;
        let mut service_ms =
            self.log_normal(if request.route == "/search" { 45.0 } else { 22.0 }, 0.5);
        if is_slow {
            service_ms *= 6.0;
        }
        let free_ns = self.workers[host].iter_mut().min();
        let Some(free_ns) = free_ns else { return };
        let start_ns = at_ns.max(*free_ns);
        *free_ns = start_ns + (service_ms * MS_NS as f64) as i64;
        let free_ns = *free_ns;
        let queueing_ms = (start_ns - at_ns) as f64 / MS_NS as f64;
        let (status, end_ns) = self.serve(&request, host, (start_ns, free_ns), incident);
        // A worker is free while a payment is waited for.
        service_ms += (end_ns - free_ns) as f64 / MS_NS as f64;
        let total_ms = queueing_ms + service_ms;
        let level = match status {
            500.. => "error",
            400.. => "warn",
            _ => "info",
        };
        let line = json!({
            "level": level,
            "service": "gateway",
            "host": "edge-1",
            "message": format!("{} {} {status} in {total_ms:.1} ms", request.method, request.path),
            "trace_id": request.trace_id,
            "span_id": self.span_id(),
            "http": {
                "method": request.method,
                "path": request.path,
                "route": request.route,
                "status_code": status,
                "bytes": self.rng.u32(300..40_000),
            },
            "upstream": WEB_HOSTS[host],
            "duration_ms": rounded(total_ms),
            "queueing_delay_ms": rounded(queueing_ms),
            "service_time_ms": rounded(service_ms),
        });
        self.log("gateway", end_ns + MS_NS, line);
    }

    /// Simulates the web host and the services behind it; returns the status of the response, and
    /// when it was complete.
    fn serve(
        &mut self,
        request: &Request,
        host: usize,
        (start_ns, end_ns): (i64, i64),
        incident: Option<Incident>,
    ) -> (u16, i64) {
        let web = |level: &str, message: String, span: String| {
            json!({
                "level": level,
                "service": "web",
                "host": WEB_HOSTS[host],
                "message": message,
                "trace_id": request.trace_id,
                "span_id": span,
                "user": { "id": request.user },
            })
        };
        let span = self.span_id();
        self.log("web", start_ns, web("debug", format!("rendering {}", request.route), span));
        let status = match request.route {
            "/checkout" => return self.checkout(request, host, end_ns, incident),
            "/products/{id}" if self.rng.u32(..50) == 0 => {
                let span = self.span_id();
                let message = format!("no product at {}", request.path);
                self.log("web", end_ns, web("warn", message, span));
                404
            }
            "/search" => {
                let hits = self.rng.u32(..400);
                let span = self.span_id();
                let message = format!("search returned {hits} products");
                self.log("web", end_ns, web("info", message, span));
                200
            }
            _ => 200,
        };
        (status, end_ns)
    }

    /// Simulates an order and its payment; returns the status of the response, and when it was
    /// complete.
    fn checkout(
        &mut self,
        request: &Request,
        host: usize,
        ordered_ns: i64,
        incident: Option<Incident>,
    ) -> (u16, i64) {
        let order = self.rng.u32(100_000..999_999);
        let amount = rounded(self.log_normal(38.0, 0.6));
        let fails = match incident {
            Some(Incident::PaymentsFail) => self.rng.u32(..10) < 7,
            Some(Incident::SlowHost | Incident::Rush) | None => self.rng.u32(..400) == 0,
        };
        let took_ms = if fails { 3000.0 } else { self.log_normal(60.0, 0.4) };
        let end_ns = ordered_ns + (took_ms * MS_NS as f64) as i64;
        let mut payment = json!({
            "level": "info",
            "service": "payments",
            "host": "pay-1",
            "message": format!("charged {amount:.2} EUR for order {order}"),
            "trace_id": request.trace_id,
            "span_id": self.span_id(),
            "order": { "id": order, "amount": amount, "currency": "EUR" },
            "provider": "acme-pay",
            "duration_ms": rounded(took_ms),
        });
        if fails {
            payment["level"] = json!("error");
            payment["message"] = json!(format!("payment of order {order} failed: timeout"));
            payment["error"] = json!({
                "type": "java.net.SocketTimeoutException",
                "message": "Read timed out",
                "stack": STACK,
            });
        }
        self.log("payments", end_ns - MS_NS, payment);
        let outcome = if fails { "cancelled" } else { "placed" };
        let line = json!({
            "level": if fails { "warn" } else { "info" },
            "service": "orders",
            "host": "orders-1",
            "message": format!("order {order} {outcome}"),
            "trace_id": request.trace_id,
            "span_id": self.span_id(),
            "order": { "id": order, "amount": amount, "items": self.rng.u32(1..6) },
            "user": { "id": request.user },
            "web": WEB_HOSTS[host],
        });
        self.log("orders", end_ns, line);
        (if fails { 503 } else { 201 }, end_ns)
    }

    /// Simulates a noisy service.
    fn noise(&mut self, at_ns: i64) {
        let product = PRODUCTS[self.noise_rng.usize(..PRODUCTS.len())];
        let score = rounded(self.noise_rng.f64());
        let line = json!({
            "level": "debug",
            "service": "recommender",
            "host": "ml-1",
            "message": format!("candidate {product} scored {score:.3} for model v{}", self.noise_rng.u32(7..9)),
            "candidate": product,
            "score": score,
            "cache": if self.noise_rng.u32(..5) == 0 { "miss" } else { "hit" },
        });
        self.log("recommender", at_ns, line);
    }

    fn draw_request(&mut self) -> Request {
        let product = PRODUCTS[self.rng.usize(..PRODUCTS.len())];
        let number = self.rng.u32(1..900);
        let (method, route, path) = match self.rng.u32(..100) {
            0..40 => ("GET", "/products/{id}", format!("/products/{product}-{number}")),
            40..65 => ("GET", "/search", format!("/search?q={product}")),
            65..85 => ("GET", "/", "/".to_owned()),
            85..93 => ("POST", "/cart", "/cart".to_owned()),
            _ => ("POST", "/checkout", "/checkout".to_owned()),
        };
        Request {
            trace_id: format!("{:032x}", self.rng.u128(..)),
            method,
            path,
            route,
            user: format!("u-{}", self.rng.u32(1000..1400)),
        }
    }

    fn log(&mut self, service: &'static str, time_ns: i64, mut line: Value) {
        let mut time = Vec::new();
        format_rfc3339_ns(time_ns, &mut time);
        line["time"] = json!(String::from_utf8_lossy(&time));
        self.number += 1;
        let line = line.to_string().into_bytes();
        self.waiting.push(Reverse(Logged { time_ns, number: self.number, service, line }));
    }

    fn span_id(&mut self) -> String {
        format!("{:016x}", self.rng.u64(..))
    }

    /// Returns a log-normally distributed number around a median, like most durations (Box and
    /// Muller).
    fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.rng.f64()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.rng.f64()).cos();
        median * (sigma * normal).exp()
    }
}

/// Returns an exponentially distributed number, like the time between independent events.
fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.f64()).ln()
}

/// Rounds to three decimals, as programs log numbers.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

const STACK: &str = "java.net.SocketTimeoutException: Read timed out\n\
    \tat java.base/sun.nio.ch.NioSocketImpl.timedRead(NioSocketImpl.java:288)\n\
    \tat java.base/sun.nio.ch.NioSocketImpl.implRead(NioSocketImpl.java:314)\n\
    \tat shop.payments.AcmeClient.charge(AcmeClient.java:87)\n\
    \tat shop.payments.PaymentService.pay(PaymentService.java:41)\n\
    \tat shop.payments.PaymentHandler.handle(PaymentHandler.java:26)";

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::*;

    const BEGIN_NS: i64 = 1_700_000_000 * SECOND_NS;

    fn lines(seed: u64, steps: &[i64]) -> Vec<(&'static str, Value)> {
        let mut shop = Shop::new(seed, 20.0, BEGIN_NS);
        let mut all = Vec::new();
        for step in steps {
            shop.advance(BEGIN_NS + step * SECOND_NS, |service, line| {
                all.push((service, serde_json::from_slice(line).expect("it is JSON")));
            });
        }
        all
    }

    #[test]
    fn a_run_depends_on_its_seed_and_not_on_its_steps() {
        assert_eq!(lines(1, &[60]), lines(1, &[7, 8, 60]));
        assert_ne!(lines(1, &[5]), lines(2, &[5]));
    }

    #[test]
    fn lines_of_all_services_are_in_order_of_their_times() {
        let lines = lines(1, &[400]);
        let services: BTreeSet<&str> = lines.iter().map(|(service, _)| *service).collect();
        assert_eq!(
            services,
            BTreeSet::from(["gateway", "orders", "payments", "recommender", "web"])
        );
        let times: Vec<&str> = lines.iter().filter_map(|(_, line)| line["time"].as_str()).collect();
        assert_eq!(times.len(), lines.len());
        assert!(times.is_sorted());
    }

    #[test]
    fn a_duration_is_queueing_and_service_and_busy_hosts_make_requests_wait() {
        let lines = lines(1, &[400]);
        let mut waited = 0;
        for (_, line) in lines.iter().filter(|(service, _)| *service == "gateway") {
            let number = |name: &str| line[name].as_f64().expect("it is a number");
            let sum = number("queueing_delay_ms") + number("service_time_ms");
            assert!((number("duration_ms") - sum).abs() < 0.01, "{line}");
            waited += usize::from(number("queueing_delay_ms") > 50.0);
        }
        assert!(waited > 20, "{waited}");
    }

    #[test]
    fn a_trace_crosses_services_and_some_payments_fail_with_a_stack_trace() {
        let lines = lines(1, &[400]);
        let mut traces: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for (service, line) in &lines {
            if let Some(trace) = line["trace_id"].as_str() {
                traces.entry(trace).or_default().insert(service);
            }
        }
        assert!(traces.values().any(|services| services.len() == 4));
        let stacks = lines.iter().filter_map(|(_, line)| line["error"]["stack"].as_str());
        assert!(stacks.filter(|stack| stack.contains("\n\tat ")).count() > 3);
        // A request that waits for a payment takes as long as the payment.
        let failed = lines.iter().filter(|(_, line)| line["http"]["status_code"] == 503);
        let durations: Vec<f64> =
            failed.filter_map(|(_, line)| line["duration_ms"].as_f64()).collect();
        assert!(!durations.is_empty() && durations.iter().all(|ms| *ms > 3000.0), "{durations:?}");
    }
}
