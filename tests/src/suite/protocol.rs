//! p
pub(super) fn checks() -> Vec<super::Check> {
    vec![]
}
