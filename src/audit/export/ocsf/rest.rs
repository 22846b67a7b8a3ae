//! The members of an event that have not found their place in a record yet. What is taken is gone from here, so that what is left at the end
//! is all that the standard has no place for.

use serde_json::{Map, Value};

pub(super) struct Rest(Map<String, Value>);

impl Rest {
    pub(super) const fn of(whole: Map<String, Value>) -> Self {
        Self(whole)
    }

    /// Takes the text at the path. Anything but a text stays where it is.
    pub(super) fn text(&mut self, path: &[&str]) -> Option<String> {
        match take(&mut self.0, path, Value::is_string)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Takes the integer at the path. Anything but an integer stays where it is.
    pub(super) fn integer(&mut self, path: &[&str]) -> Option<i64> {
        take(&mut self.0, path, Value::is_i64)?.as_i64()
    }

    /// Takes whatever is at the path.
    pub(super) fn any(&mut self, path: &[&str]) -> Option<Value> {
        take(&mut self.0, path, |_| true)
    }

    /// What nobody took.
    pub(super) fn into_left(self) -> Map<String, Value> {
        self.0
    }
}

/// Takes the value at the path if it is of that kind; an object that is empty then goes too.
fn take(object: &mut Map<String, Value>, path: &[&str], is_kind: fn(&Value) -> bool) -> Option<Value> {
    let (first, below) = path.split_first()?;
    if below.is_empty() {
        return object.get(*first).is_some_and(is_kind).then(|| object.remove(*first))?;
    }
    let inner = object.get_mut(*first)?.as_object_mut()?;
    let taken = take(inner, below, is_kind)?;
    if inner.is_empty() {
        object.remove(*first);
    }
    Some(taken)
}
