//! Where a source file can be changed in one place, and into what.

use std::collections::HashMap;
use std::ops::Range;

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprMatch, ImplItem, ImplItemFn, Item, ItemFn, ItemImpl, ItemTrait,
    Macro, Pat, Signature, Stmt, Token, TraitItemFn, UnOp,
};

use super::defaults::defaults;
use super::operators::{is_comparison, is_compound, neighbours, partner};

/// What is changed where.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Change {
    /// The file, from the root of the workspace.
    pub file: String,
    pub line: usize,
    pub function: String,
    /// The kind of change: `< -> <=`.
    pub what: String,
    /// The source that is changed, in one line.
    pub text: String,
    /// Which of several equal changes in the function, from 1.
    pub nth: usize,
}

impl Change {
    /// Tells a change from others though lines move.
    pub fn key(&self) -> String {
        [&self.file, &self.function, &self.what, &self.text, &self.nth.to_string()]
            .map(String::as_str)
            .join("\t")
    }
}

/// How the source of a site and its changes are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An expression.
    Value,
    /// A statement with its semicolon.
    Statement,
    /// The guard of a match arm; its change never lets the arm match.
    Guard,
    /// The place for a guard, behind the pattern of an arm.
    NewGuard,
    /// The place behind the opening brace of a function.
    Entry,
}

/// A place in a file with all its changes.
pub struct Site {
    /// Bytes of the source.
    pub range: Range<usize>,
    pub form: Form,
    /// Every change with the source that replaces the site's.
    pub changes: Vec<(Change, String)>,
}

/// A file and its sites, outer ones before those inside.
pub struct Source {
    pub text: String,
    pub sites: Vec<Site>,
    /// The bytes of every function.
    pub functions: Vec<Range<usize>>,
    /// The word `const` of every function that has it, with the function's name.
    pub consts: Vec<(String, Range<usize>)>,
}

/// Finds every site of a file.
pub fn find(file: &str, text: String) -> Result<Source, String> {
    let tree = syn::parse_file(&text).map_err(|e| format!("{file}: {e}"))?;
    let mut walk = Walk {
        file,
        text: &text,
        of: String::new(),
        function: String::new(),
        late: Vec::new(),
        ends: Vec::new(),
        sites: Vec::new(),
        functions: Vec::new(),
        consts: Vec::new(),
    };
    walk.visit_file(&tree);
    let Walk { mut sites, functions, consts, .. } = walk;
    // Places without extent come before what begins there.
    sites.sort_by_key(|s| (s.range.start, !s.range.is_empty(), std::cmp::Reverse(s.range.end)));
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (change, _) in sites.iter_mut().flat_map(|s| &mut s.changes) {
        let n = seen.entry(change.key()).or_default();
        *n += 1;
        change.nth = *n;
    }
    Ok(Source { text, sites, functions, consts })
}

struct Walk<'t> {
    file: &'t str,
    text: &'t str,
    /// The type or trait around a function, with `::`.
    of: String,
    function: String,
    /// Variables that are declared without a value: what assigns to them cannot be left out.
    late: Vec<String>,
    /// Where blocks begin whose last statement may be a `return` or `break` that is left out.
    ends: Vec<usize>,
    sites: Vec<Site>,
    functions: Vec<Range<usize>>,
    consts: Vec<(String, Range<usize>)>,
}

impl<'t> Walk<'t> {
    fn source(&self, of: &impl Spanned) -> &'t str {
        &self.text[of.span().byte_range()]
    }

    fn site(&mut self, at: &impl Spanned, form: Form, shown: &str, changes: Vec<(String, String)>) {
        let line = at.span().start().line;
        self.site_at(at.span().byte_range(), line, form, shown, changes);
    }

    fn site_at(
        &mut self,
        range: Range<usize>,
        line: usize,
        form: Form,
        shown: &str,
        changes: Vec<(String, String)>,
    ) {
        if self.function.is_empty() || changes.is_empty() {
            return;
        }
        let text: String = shown.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(120).collect();
        let change = |(what, source)| {
            let (file, function) = (self.file.to_string(), self.function.clone());
            (Change { file, line, function, what, text: text.clone(), nth: 0 }, source)
        };
        let changes = changes.into_iter().map(change).collect();
        self.sites.push(Site { range, form, changes });
    }

    /// The changes of an operator, with the expression that each makes.
    fn operators(&self, left: &Expr, op: &BinOp, right: &Expr) -> Vec<(String, String)> {
        let (l, r) = (self.source(left), self.source(right));
        let is = self.source(op);
        let make = |to: &&str| (format!("{is} -> {to}"), format!("({l}) {to} ({r})"));
        neighbours(is).iter().map(make).collect()
    }

    fn function(&mut self, attrs: &[Attribute], sig: &Signature, block: &Block, whole: &impl Spanned) {
        if hidden(attrs) || sig.unsafety.is_some() {
            return;
        }
        if let Some(word) = &sig.constness {
            self.consts.push((sig.ident.to_string(), word.span().byte_range()));
        }
        let name = format!("{}{}", self.of, sig.ident);
        let before = std::mem::replace(&mut self.function, name);
        let late = std::mem::take(&mut self.late);
        self.functions.push(whole.span().byte_range());
        let open = block.brace_token.span.open().byte_range().end;
        let body = self.source(block).trim_matches(['{', '}']).trim().to_string();
        if !body.is_empty() {
            let values = defaults(&sig.output).into_iter().filter(|v| *v != body);
            let changes = values
                .map(|v| match v.as_str() {
                    "" => ("return".to_string(), "return".to_string()),
                    v => (format!("return {v}"), format!("return {v}")),
                })
                .collect();
            let line = sig.ident.span().start().line;
            self.site_at(open..open, line, Form::Entry, &sig.ident.to_string(), changes);
        }
        self.visit_block(block);
        self.late = late;
        self.function = before;
    }

    /// The negated condition of an `if` or `while`, unless it is a comparison, whose own changes say it.
    fn condition(&mut self, condition: &Expr) {
        let mut inner = condition;
        while let Expr::Paren(p) = inner {
            inner = &p.expr;
        }
        let own = match inner {
            Expr::Binary(b) => is_comparison(&b.op),
            Expr::Unary(u) => matches!(u.op, UnOp::Not(_)),
            _ => false,
        };
        if !own && !has_let(inner) {
            let source = self.source(condition).to_string();
            let changes = vec![("negated condition".to_string(), format!("!({source})"))];
            self.site(condition, Form::Value, &source, changes);
        }
    }

    /// A statement that may be left out.
    fn statement(&mut self, statement: &Stmt, e: &Expr, last: bool, may_end: bool) {
        let whole = self.source(statement).to_string();
        let mut changes = vec![("delete statement".to_string(), String::new())];
        match e {
            Expr::Assign(a) => {
                if matches!(&*a.left, Expr::Path(p) if p.path.get_ident().is_some_and(|i| self.late.contains(&i.to_string())))
                {
                    return self.visit_expr(e);
                }
            }
            Expr::Binary(b) if is_compound(&b.op) => {
                let (l, r) = (self.source(&b.left), self.source(&b.right));
                let is = self.source(&b.op);
                for to in neighbours(is) {
                    changes.push((format!("{is} -> {to}"), format!("{l} {to} {r};")));
                }
                self.site(statement, Form::Statement, &whole, changes);
                self.visit_expr(&b.left);
                return self.visit_expr(&b.right);
            }
            Expr::Call(_) | Expr::MethodCall(_) | Expr::Try(_) => {}
            Expr::Return(_) | Expr::Continue(_) if !last || may_end => {}
            Expr::Break(b) if b.expr.is_none() && (!last || may_end) => {}
            _ => return self.visit_expr(e),
        }
        self.site(statement, Form::Statement, &whole, changes);
        self.visit_expr(e);
    }

    fn arms(&mut self, m: &ExprMatch) {
        self.visit_expr(&m.expr);
        let catches = m.arms.last().is_some_and(|a| a.guard.is_none() && catches_all(&a.pat));
        for (k, arm) in m.arms.iter().enumerate() {
            if hidden(&arm.attrs) {
                continue;
            }
            if catches && k + 1 < m.arms.len() {
                self.arm(arm);
            }
            if let Some((_, guard)) = &arm.guard {
                self.condition(guard);
                self.visit_expr(guard);
            }
            self.visit_expr(&arm.body);
        }
    }

    fn arm(&mut self, arm: &Arm) {
        let pattern = self.source(&arm.pat).to_string();
        let changes = vec![(
            format!("delete arm {}", pattern.split_whitespace().collect::<Vec<_>>().join(" ")),
            String::new(),
        )];
        match &arm.guard {
            Some((_, guard)) if has_let(guard) => {}
            Some((_, guard)) => self.site(&**guard, Form::Guard, &pattern, changes),
            None => {
                let span = arm.pat.span();
                let end = span.byte_range().end;
                self.site_at(end..end, span.start().line, Form::NewGuard, &pattern, changes);
            }
        }
    }

    /// The arguments of a macro that formats or makes a vector.
    fn arguments(&mut self, m: &Macro) {
        let name = m.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        if !["format", "write", "writeln", "print", "println", "eprint", "eprintln", "vec"]
            .contains(&name.as_str())
        {
            return;
        }
        let parser = Punctuated::<Expr, Token![,]>::parse_terminated;
        if let Ok(arguments) = m.parse_body_with(parser) {
            for a in &arguments {
                match a {
                    Expr::Assign(named) => self.visit_expr(&named.right),
                    other => self.visit_expr(other),
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Mod(m) if !hidden(&m.attrs) => visit::visit_item_mod(self, m),
            Item::Fn(f) => self.visit_item_fn(f),
            Item::Impl(i) if !hidden(&i.attrs) => self.visit_item_impl(i),
            Item::Trait(t) if !hidden(&t.attrs) => self.visit_item_trait(t),
            _ => {}
        }
    }

    fn visit_item_fn(&mut self, f: &'ast ItemFn) {
        let of = std::mem::take(&mut self.of);
        self.function(&f.attrs, &f.sig, &f.block, f);
        self.of = of;
    }

    fn visit_item_impl(&mut self, i: &'ast ItemImpl) {
        let name = format!("{}::", self.source(&*i.self_ty));
        let of = std::mem::replace(&mut self.of, name);
        for item in &i.items {
            if let ImplItem::Fn(f) = item {
                self.visit_impl_item_fn(f);
            }
        }
        self.of = of;
    }

    fn visit_impl_item_fn(&mut self, f: &'ast ImplItemFn) {
        self.function(&f.attrs, &f.sig, &f.block, f);
    }

    fn visit_item_trait(&mut self, t: &'ast ItemTrait) {
        let of = std::mem::replace(&mut self.of, format!("{}::", t.ident));
        visit::visit_item_trait(self, t);
        self.of = of;
    }

    fn visit_trait_item_fn(&mut self, f: &'ast TraitItemFn) {
        if let Some(block) = &f.default {
            self.function(&f.attrs, &f.sig, block, f);
        }
    }

    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_block(&mut self, block: &'ast Block) {
        let begins = block.span().byte_range().start;
        let may_end = self.ends.contains(&begins);
        for (k, statement) in block.stmts.iter().enumerate() {
            match statement {
                Stmt::Local(l) if hidden(&l.attrs) => {}
                Stmt::Local(l) => {
                    if l.init.is_none()
                        && let Pat::Ident(p) = untyped(&l.pat)
                    {
                        self.late.push(p.ident.to_string());
                    }
                    visit::visit_local(self, l);
                }
                Stmt::Expr(e, Some(_)) => self.statement(statement, e, k + 1 == block.stmts.len(), may_end),
                Stmt::Macro(m) => {
                    let name = m.mac.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
                    if m.semi_token.is_some()
                        && ["print", "println", "eprint", "eprintln"].contains(&name.as_str())
                    {
                        let whole = self.source(statement).to_string();
                        let changes = vec![("delete statement".to_string(), String::new())];
                        self.site(statement, Form::Statement, &whole, changes);
                    }
                    self.arguments(&m.mac);
                }
                other => visit::visit_stmt(self, other),
            }
        }
    }

    fn visit_expr(&mut self, e: &'ast Expr) {
        match e {
            Expr::Unsafe(_) | Expr::Const(_) => return,
            Expr::Macro(m) => return self.arguments(&m.mac),
            Expr::Repeat(r) => return self.visit_expr(&r.expr),
            Expr::Match(m) => return self.arms(m),
            Expr::Binary(b) if !has_let(e) => {
                let changes = if is_compound(&b.op) {
                    let (l, r, is) = (self.source(&b.left), self.source(&b.right), self.source(&b.op));
                    neighbours(is)
                        .iter()
                        .map(|to| (format!("{is} -> {to}"), format!("{l} {to} {r}")))
                        .collect()
                } else {
                    self.operators(&b.left, &b.op, &b.right)
                };
                let shown = self.source(e).to_string();
                self.site(e, Form::Value, &shown, changes);
            }
            Expr::Unary(u) => {
                let what = match u.op {
                    UnOp::Not(_) => "delete !",
                    UnOp::Neg(_) => "delete -",
                    _ => "",
                };
                if !what.is_empty() {
                    let (shown, inner) = (self.source(e).to_string(), self.source(&*u.expr).to_string());
                    self.site(e, Form::Value, &shown, vec![(what.to_string(), format!("({inner})"))]);
                }
            }
            Expr::If(i) => {
                self.condition(&i.cond);
                if i.else_branch.is_none() {
                    self.ends.push(i.then_branch.span().byte_range().start);
                }
            }
            Expr::While(w) => {
                self.condition(&w.cond);
                self.ends.push(w.body.span().byte_range().start);
            }
            Expr::ForLoop(f) => self.ends.push(f.body.span().byte_range().start),
            Expr::Loop(l) => self.ends.push(l.body.span().byte_range().start),
            Expr::MethodCall(c) => {
                let is = c.method.to_string();
                if let Some(to) = partner(&is) {
                    let (whole, name) = (c.span().byte_range(), c.method.span().byte_range());
                    let made = format!(
                        "{}{to}{}",
                        &self.text[whole.start..name.start],
                        &self.text[name.end..whole.end]
                    );
                    let shown = self.source(e).to_string();
                    self.site(e, Form::Value, &shown, vec![(format!("{is} -> {to}"), made)]);
                }
            }
            _ => {}
        }
        visit::visit_expr(self, e);
    }
}

/// Whether a condition is a `let`, or a chain with one.
fn has_let(e: &Expr) -> bool {
    match e {
        Expr::Let(_) => true,
        Expr::Binary(b) => matches!(b.op, BinOp::And(_)) && (has_let(&b.left) || has_let(&b.right)),
        _ => false,
    }
}

fn catches_all(pattern: &Pat) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        Pat::Ident(p) => p.subpat.is_none() && p.ident.to_string().starts_with(char::is_lowercase),
        _ => false,
    }
}

fn untyped(pattern: &Pat) -> &Pat {
    match pattern {
        Pat::Type(t) => &t.pat,
        other => other,
    }
}

/// Whether an item is for tests or for another machine.
fn hidden(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|a| {
        a.path().is_ident("test")
            || a.path().is_ident("cfg")
                && a.meta.require_list().is_ok_and(|l| {
                    let words = l.tokens.to_string();
                    words.contains("test") || words.contains("not") || words.contains("windows")
                })
    })
}
