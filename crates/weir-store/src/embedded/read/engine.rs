//! The built-in store behind the common query interface: each query is answered from a snapshot.

use std::sync::Arc;
use std::time::Duration;

use weir_expr::{Expr, Field, Units};

use super::scan;
use crate::embedded::store::EmbeddedStore;
use crate::query::{
    Access, Aggregate, AggregateRequest, Budget, CalculatedField, CancelError, ContextRequest,
    DeleteError, DeletionReport, DeletionRequest, Facets, FacetsRequest, FieldInfo, FieldList,
    Filter, LogStore, Patterns, PatternsRequest, QueryError, ReceivedRequest, RecordContext,
    SearchPage, SearchRequest, Services, ServicesRequest, StoreMetrics, StoreReport, TimeRange,
    ValueType,
};

/// Answers queries from snapshots.
#[derive(Debug, Clone)]
pub struct QueryEngine {
    store: Arc<EmbeddedStore>,
    /// Calculated fields of every query; those of the query itself take precedence.
    calculated_fields: Vec<CalculatedField>,
    units: Units,
    /// The services of segments, which do not change.
    spans: Arc<scan::SpanCache>,
}

impl QueryEngine {
    /// Creates an engine for a store.
    pub fn new(store: Arc<EmbeddedStore>) -> Self {
        Self {
            store,
            calculated_fields: Vec::new(),
            units: Units::default(),
            spans: Arc::default(),
        }
    }

    /// Adds fields that are calculated for every query.
    #[must_use]
    pub fn with_calculated_fields(self, calculated_fields: Vec<CalculatedField>) -> Self {
        Self { calculated_fields, ..self }
    }

    /// Sets the units of attributes.
    #[must_use]
    pub fn with_units(self, units: Units) -> Self {
        Self { units, ..self }
    }

    fn filter(&self, filter: &Filter) -> Filter {
        let calculated_fields =
            filter.calculated_fields.iter().chain(&self.calculated_fields).cloned();
        let calculated_fields = CalculatedField::resolve_units(calculated_fields, &self.units);
        Filter { calculated_fields, units: self.units.clone(), ..filter.clone() }
    }

    /// Returns an error if what the expression means depends on the configuration: a deletion that
    /// is pending is read again after it may have changed.
    fn check_deletion(&self, query: &Expr) -> Result<(), DeleteError> {
        let mut result = Ok(());
        query.for_each_term(&mut |term, _| {
            let Field::Attribute(path) = &term.field else { return };
            if self.calculated_fields.iter().any(|calculated| calculated.path == *path) {
                result = Err(DeleteError::CalculatedField(path.clone()));
            } else if self.units.declared().contains_key(path) && term.test.has_unit() {
                result = Err(DeleteError::DeclaredUnit(path.clone()));
            }
        });
        result
    }
}

impl LogStore for QueryEngine {
    fn search(&self, request: &SearchRequest, budget: &Budget) -> Result<SearchPage, QueryError> {
        let request = SearchRequest { filter: self.filter(&request.filter), ..request.clone() };
        scan::search(&self.store.snapshot(request.filter.range), &request, budget)
    }

    fn received(
        &self,
        request: &ReceivedRequest,
        budget: &Budget,
    ) -> Result<SearchPage, QueryError> {
        let snapshot = self.store.snapshot(request.search.filter.range);
        scan::received(&snapshot, request, &self.spans, budget)
    }

    fn services(&self, request: &ServicesRequest, budget: &Budget) -> Result<Services, QueryError> {
        scan::services(&self.store.snapshot(TimeRange::ALL), request, &self.spans, budget)
    }

    fn calculated_fields(&self) -> &[CalculatedField] {
        &self.calculated_fields
    }

    fn units(&self) -> &Units {
        &self.units
    }

    fn aggregate(
        &self,
        request: &AggregateRequest,
        budget: &Budget,
    ) -> Result<Aggregate, QueryError> {
        let request = AggregateRequest { filter: self.filter(&request.filter), ..request.clone() };
        scan::aggregate(&self.store.snapshot(request.filter.range), &request, budget)
    }

    fn context(
        &self,
        request: &ContextRequest,
        budget: &Budget,
    ) -> Result<Option<RecordContext>, QueryError> {
        scan::context(&self.store.snapshot(TimeRange::ALL), request, budget)
    }

    fn patterns(&self, request: &PatternsRequest, budget: &Budget) -> Result<Patterns, QueryError> {
        let request = PatternsRequest { filter: self.filter(&request.filter), ..request.clone() };
        scan::patterns(&self.store.snapshot(request.filter.range), &request, budget)
    }

    fn facets(&self, request: &FacetsRequest, budget: &Budget) -> Result<Facets, QueryError> {
        let request = FacetsRequest { filter: self.filter(&request.filter), ..request.clone() };
        scan::facets(&self.store.snapshot(request.filter.range), &request, budget)
    }

    fn fields(
        &self,
        range: TimeRange,
        access: &Access,
        budget: &Budget,
    ) -> Result<FieldList, QueryError> {
        let mut list = scan::fields(&self.store.snapshot(range), range, access, budget)?;
        // How many records have one is only known after it is calculated.
        let computed = self.calculated_fields.iter().map(|calculated| FieldInfo {
            name: format!("@{}", calculated.path),
            value_type: ValueType::Number,
            parts: 0,
        });
        let is_new = |field: &FieldInfo| list.fields.iter().all(|known| known.name != field.name);
        let computed: Vec<FieldInfo> = computed.filter(is_new).collect();
        list.fields.extend(computed);
        Ok(list)
    }

    fn report(&self) -> StoreReport {
        self.store.report()
    }

    fn metrics(&self) -> StoreMetrics {
        self.store.metrics()
    }

    fn delete(&self, request: &DeletionRequest, timeout: Duration) -> Result<u64, DeleteError> {
        self.check_deletion(&request.query)?;
        self.store.delete(request, timeout)
    }

    fn deletions(&self, access: &Access) -> Vec<DeletionReport> {
        self.store.deletions(access)
    }

    fn cancel_deletion(
        &self,
        id: u64,
        access: &Access,
        timeout: Duration,
    ) -> Result<DeletionReport, CancelError> {
        self.store.cancel_deletion(id, access, timeout)
    }
}
