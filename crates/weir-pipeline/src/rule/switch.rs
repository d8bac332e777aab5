//! The rules in force, replaced while weir runs.

use std::sync::{Arc, Mutex, PoisonError};

use super::Rules;

/// Holds the rules of the present generation. A batch is routed by one generation as a whole.
#[derive(Debug)]
pub struct RuleSwitch {
    current: Mutex<Arc<Rules>>,
}

impl RuleSwitch {
    /// Begins with these.
    pub fn new(mut rules: Rules, now_ns: i64) -> Self {
        let none = Rules::to_all(0, []);
        rules.continue_from(&none, now_ns);
        Self { current: Mutex::new(Arc::new(rules)) }
    }

    /// The rules for the next batch.
    pub fn current(&self) -> Arc<Rules> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts other rules in force, from the next batch of each source on.
    pub fn replace(&self, mut rules: Rules, now_ns: i64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        rules.continue_from(&current, now_ns);
        *current = Arc::new(rules);
    }
}
