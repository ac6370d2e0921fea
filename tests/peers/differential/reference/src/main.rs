//! Prints the reference's verdict on each file of a stream (see generate.c), one line per file.
//! judge.c and dump.h explain the lines `A` and `R`:
//!
//!     A ...                 the reference opens the file
//!     R rule                it rejects the file
//!     S kinds verdict       the header contains something that tenmap rejects on purpose
//!
//! `kinds` has one letter for each such thing: `n` for a tensor's name that appears twice, `m` for
//! a key of `__metadata__` that appears twice, `a` for an entry that is an array, `d` for a dtype
//! that is an object. The program finds them by walking the JSON, not by comparing verdicts.
//! `verdict` is the reference's own: A, or the rule.
//!
//! With an argument N, the program judges each file N times and prints all different verdicts,
//! joined by `|`. Verdicts can differ because the reference's hash map returns tensors at the same
//! offsets in any order.

use safetensors::tensor::Metadata;
use safetensors::{SafeTensorError, SafeTensors};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::io::{self, BufRead, BufWriter, Read, Write};

/// Appends a text as dump.h writes it: special bytes become %xx.
fn put_text(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
}

/// Returns the line of a file that the reference opens, as dump.h explains it.
fn accepted(metadata: &Metadata) -> String {
    let mut out = String::from("A");
    let tensors = metadata.tensors();
    let mut order: Vec<_> =
        tensors.iter().map(|(name, info)| (info.data_offsets, name, info)).collect();
    order.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    for ((begin, end), name, info) in order {
        out.push_str(" T");
        put_text(&mut out, name);
        let dims: Vec<String> = info.shape.iter().map(|dim| dim.to_string()).collect();
        out.push_str(&format!(":{:?}:{}:{begin}:{end}", info.dtype, dims.join(",")));
    }
    if let Some(pairs) = metadata.metadata() {
        for (key, value) in pairs.iter().collect::<BTreeMap<_, _>>() {
            out.push_str(" M");
            put_text(&mut out, key);
            out.push('=');
            put_text(&mut out, value);
        }
    }
    out
}

/// Returns the rule of docs/format.md that an error is about; 3 stands for rules 1 to 3, and 0 for
/// none.
fn rule(error: &SafeTensorError) -> u32 {
    use SafeTensorError::*;
    match error {
        HeaderTooSmall | HeaderTooLarge | InvalidHeaderLength => 3,
        InvalidHeader(_) => 4,
        InvalidHeaderDeserialization(_) => 5,
        InvalidOffset(_) => 6,
        ValidationOverflow => 7,
        MisalignedSlice => 8,
        TensorInvalidInfo => 9,
        MetadataIncompleteBuffer => 10,
        _ => 0,
    }
}

/// What a header contains that tenmap rejects on purpose and the reference does not.
#[derive(Default)]
struct Stricter {
    name_twice: bool,
    key_twice: bool,
    entry_array: bool,
    dtype_object: bool,
}

impl Stricter {
    fn kinds(&self) -> String {
        let all = [
            (self.name_twice, 'n'),
            (self.key_twice, 'm'),
            (self.entry_array, 'a'),
            (self.dtype_object, 'd'),
        ];
        all.iter().filter(|(found, _)| *found).map(|(_, kind)| kind).collect()
    }
}

/// A part of a header.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Top,
    Metadata,
    Entry,
    Dtype,
}

/// Walks the JSON of one part of a header, and records in `found` what tenmap rejects.
struct Walk<'a> {
    part: Part,
    found: &'a mut Stricter,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        self.found.dtype_object |= self.part == Part::Dtype;
        while let Some(key) = map.next_key::<String>()? {
            let inside = match (self.part, key.as_str()) {
                (Part::Top, "__metadata__") => Some(Part::Metadata),
                (Part::Top, _) => Some(Part::Entry),
                (Part::Entry, "dtype") => Some(Part::Dtype),
                _ => None,
            };
            match inside {
                Some(part) => map.next_value_seed(Walk { part, found: &mut *self.found })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
            let twice = !keys.insert(key);
            self.found.name_twice |= twice && self.part == Part::Top;
            self.found.key_twice |= twice && self.part == Part::Metadata;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.found.entry_array |= self.part == Part::Entry;
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Returns the letters of what tenmap rejects in a file, or `?` if its JSON is not valid. The
/// reference must already have read the header as JSON of the right types.
fn stricter_kinds(file: &[u8]) -> String {
    let length = u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize;
    let mut found = Stricter::default();
    let mut json = serde_json::Deserializer::from_slice(&file[8..8 + length]);
    let walked = Walk { part: Part::Top, found: &mut found }.deserialize(&mut json);
    if walked.is_err() {
        return "?".into();
    }
    found.kinds()
}

/// Returns the line of a file.
fn judge(file: &[u8]) -> String {
    let verdict = SafeTensors::read_metadata(file);
    let number = verdict.as_ref().map_or_else(rule, |_| 0);
    let kinds = if verdict.is_ok() || number > 5 { stricter_kinds(file) } else { String::new() };
    match verdict {
        Ok(_) if !kinds.is_empty() => format!("S {kinds} A"),
        Err(_) if !kinds.is_empty() => format!("S {kinds} {number:02}"),
        Ok((_, metadata)) => accepted(&metadata),
        Err(_) => format!("R {number:02}"),
    }
}

fn main() -> io::Result<()> {
    let times: usize = std::env::args().nth(1).map_or(1, |word| word.parse().expect("a number"));
    let mut input = io::stdin().lock();
    let mut out = BufWriter::new(io::stdout().lock());
    while !input.fill_buf()?.is_empty() {
        let mut frame = [0; 4];
        input.read_exact(&mut frame)?;
        let mut file = vec![0; u32::from_le_bytes(frame) as usize];
        input.read_exact(&mut file)?;
        if times == 1 {
            writeln!(out, "{}", judge(&file))?;
        } else {
            let lines: BTreeSet<String> = (0..times).map(|_| judge(&file)).collect();
            writeln!(out, "{}", lines.into_iter().collect::<Vec<_>>().join("|"))?;
        }
    }
    out.flush()
}
