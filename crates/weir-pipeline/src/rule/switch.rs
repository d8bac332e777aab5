//! The rules in force, which can be replaced while weir runs.

use std::sync::{Arc, Mutex, PoisonError};

use super::Rules;

/// Holds the rules of the current generation. A batch is always routed by one generation.
#[derive(Debug)]
pub struct RuleSwitch {
    current: Mutex<Arc<Rules>>,
}

impl RuleSwitch {
    /// Starts with these rules.
    pub fn new(mut rules: Rules, now_ns: i64) -> Self {
        let none = Rules::to_all(0, []);
        rules.continue_from(&none, now_ns);
        Self { current: Mutex::new(Arc::new(rules)) }
    }

    /// Returns the rules for the next batch.
    pub fn current(&self) -> Arc<Rules> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the rules, from the next batch of each source on.
    pub fn replace(&self, mut rules: Rules, now_ns: i64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        rules.continue_from(&current, now_ns);
        *current = Arc::new(rules);
    }
}
