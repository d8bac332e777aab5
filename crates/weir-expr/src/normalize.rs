//! Normalizes expressions with the same meaning to the same form, as far as that is cheap.
//!
//! Guarantees: no `AND` inside `AND`, no `OR` inside `OR`, no double negation, parts sorted by
//! their text without duplicates, `*` only as the whole expression, and `-*` for "no record".

use crate::ast::{Expr, ExprKind};

impl Expr {
    /// Returns the same condition in its normal form. Spans still refer to where the parts were
    /// written.
    #[must_use]
    pub fn normalized(&self) -> Self {
        let span = self.span;
        let kind = match &self.kind {
            ExprKind::Not(inner) => {
                let inner = inner.normalized();
                match inner.kind {
                    ExprKind::Not(twice) => return *twice,
                    _ => ExprKind::Not(Box::new(inner)),
                }
            }
            ExprKind::And(parts) => return joined(parts, true, self),
            ExprKind::Or(parts) => return joined(parts, false, self),
            kind => kind.clone(),
        };
        Self { kind, span }
    }

    /// Returns whether this is `-*` after [`Self::normalized`]: no record passes.
    pub fn is_never(&self) -> bool {
        matches!(&self.kind, ExprKind::Not(inner) if inner.kind == ExprKind::All)
    }

    /// Returns whether this is `*` after [`Self::normalized`]: every record passes.
    pub fn is_always(&self) -> bool {
        self.kind == ExprKind::All
    }
}

fn joined(parts: &[Expr], is_and: bool, whole: &Expr) -> Expr {
    let mut flat = Vec::new();
    for part in parts.iter().map(Expr::normalized) {
        match part.kind {
            ExprKind::And(inner) if is_and => flat.extend(inner),
            ExprKind::Or(inner) if !is_and => flat.extend(inner),
            _ => flat.push(part),
        }
    }
    let never = Expr { kind: ExprKind::Not(Box::new(Expr::all())), span: whole.span };
    let always = Expr { kind: ExprKind::All, span: whole.span };
    // `x AND *` is x, `x AND -*` is nothing; the other way round for OR.
    let (neutral, deciding) = if is_and { (always, never) } else { (never, always) };
    flat.retain(|part| *part != neutral);
    flat.sort_by_cached_key(ToString::to_string);
    flat.dedup();
    let contradicts = |part: &Expr| match &part.kind {
        ExprKind::Not(inner) => flat.contains(inner),
        _ => false,
    };
    if flat.contains(&deciding) || flat.iter().any(contradicts) {
        return deciding;
    }
    match flat.len() {
        0 => neutral,
        1 => flat.swap_remove(0),
        _ => {
            let kind = if is_and { ExprKind::And(flat) } else { ExprKind::Or(flat) };
            Expr { kind, span: whole.span }
        }
    }
}
