//! The built-in store, asked as any other: each question is answered from a snapshot.

use std::sync::Arc;
use std::time::Duration;

use weir_expr::Expr;

use super::scan;
use super::snapshot::Snapshot;
use crate::query::{
    Access, Aggregate, AggregateRequest, Budget, ContextRequest, DeleteError, DeletionReport,
    FieldInfo, LogStore, Patterns, PatternsRequest, QueryError, RecordContext, SearchPage,
    SearchRequest, StoreFigures, StoreReport, TimeRange,
};

/// What gives snapshots.
pub trait Snapshots: Send + Sync + std::fmt::Debug {
    /// Everything that may have records of the range.
    fn snapshot(&self, range: TimeRange) -> Snapshot;

    /// What is stored and what it takes.
    fn report(&self) -> StoreReport;

    /// What it does.
    fn figures(&self) -> StoreFigures;

    /// See [`LogStore::delete`].
    fn delete(
        &self,
        query: &Expr,
        range: TimeRange,
        access: &Access,
        timeout: Duration,
    ) -> Result<u64, DeleteError>;

    /// See [`LogStore::deletions`].
    fn deletions(&self, access: &Access) -> Vec<DeletionReport>;
}

/// Answers questions from snapshots.
#[derive(Debug, Clone)]
pub struct Explorer<S> {
    store: Arc<S>,
}

impl<S> Explorer<S> {
    /// Of a store.
    pub fn new(store: Arc<S>) -> Self {
        Self { store }
    }
}

impl<S: Snapshots> LogStore for Explorer<S> {
    fn search(&self, request: &SearchRequest, budget: &Budget) -> Result<SearchPage, QueryError> {
        scan::search(&self.store.snapshot(request.filter.range), request, budget)
    }

    fn aggregate(
        &self,
        request: &AggregateRequest,
        budget: &Budget,
    ) -> Result<Aggregate, QueryError> {
        scan::aggregate(&self.store.snapshot(request.filter.range), request, budget)
    }

    fn context(
        &self,
        request: &ContextRequest,
        budget: &Budget,
    ) -> Result<Option<RecordContext>, QueryError> {
        scan::context(&self.store.snapshot(TimeRange::ALL), request, budget)
    }

    fn patterns(&self, request: &PatternsRequest, budget: &Budget) -> Result<Patterns, QueryError> {
        scan::patterns(&self.store.snapshot(request.filter.range), request, budget)
    }

    fn fields(
        &self,
        range: TimeRange,
        access: &Access,
        budget: &Budget,
    ) -> Result<Vec<FieldInfo>, QueryError> {
        scan::fields(&self.store.snapshot(range), range, access, budget)
    }

    fn report(&self) -> StoreReport {
        self.store.report()
    }

    fn figures(&self) -> StoreFigures {
        self.store.figures()
    }

    fn delete(
        &self,
        query: &Expr,
        range: TimeRange,
        access: &Access,
        timeout: Duration,
    ) -> Result<u64, DeleteError> {
        self.store.delete(query, range, access, timeout)
    }

    fn deletions(&self, access: &Access) -> Vec<DeletionReport> {
        self.store.deletions(access)
    }
}
