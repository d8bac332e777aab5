//! Merges templates that differ only in some words: a program writes them with one statement that
//! inserts plain words, such as names, into its text.
//!
//! Templates with the same number of words and the same characters between them are compared word
//! by word with more frequent ones, and join the first that is similar enough (as in Drain: He et
//! al., "Drain: An Online Log Parsing Approach with Fixed Depth Tree", 2017). They are merged only
//! when many have joined: two or three similar texts are separate statements.
//!
//! Invariant: the result depends only on the order of the templates, and takes time linear in their
//! number.

use std::collections::{BTreeMap, HashMap, HashSet};

use weir_expr::words::is_word_byte;

use crate::embedded::hash::{FoldState, hash_bytes};

/// Maximum number of templates to compare; the others are rare.
const COMPARED_MAX: usize = 20_000;

/// Maximum number of templates of the same structure that a template is compared with.
const LEADERS_MAX: usize = 128;

/// Minimum number of similar templates to merge.
const VARIANTS_MIN: usize = 5;

/// Minimum number of words; fewer do not tell statements apart.
const WORDS_MIN: usize = 3;

/// How many of ten words must be the same.
const SAME_OF_TEN: usize = 6;

/// Templates that were merged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cluster {
    /// With `*` in place of the words in which they differ.
    pub(super) template: Vec<u8>,
    /// The indexes of the templates.
    pub(super) members: Vec<usize>,
}

/// A template and those that have joined it.
struct Leader {
    /// `None` for words in which they differ.
    words: Vec<Option<u32>>,
    members: Vec<Member>,
}

/// A template by its index, and its words by theirs.
struct Member {
    number: usize,
    words: Vec<u32>,
}

impl Leader {
    fn new(member: Member) -> Self {
        Self { words: member.words.iter().copied().map(Some).collect(), members: vec![member] }
    }

    fn is_like(&self, words: &[u32]) -> bool {
        let same = self.words.iter().zip(words).filter(|(own, word)| **own == Some(**word)).count();
        words.len() >= WORDS_MIN && same * 10 >= words.len() * SAME_OF_TEN
    }

    fn join(&mut self, member: Member) {
        for (own, word) in self.words.iter_mut().zip(&member.words) {
            *own = own.filter(|own| own == word);
        }
        self.members.push(member);
    }

    /// Splits the members by the words of which there are few distinct values, such as `failed` and
    /// `accepted`: those tell statements apart. The members of a part differ only in words with
    /// many values.
    fn parts(self) -> impl Iterator<Item = Vec<Member>> {
        let few = |place: &usize| {
            let words = self.members.iter().map(|member| member.words[*place]);
            let distinct = words.collect::<HashSet<_>>().len();
            distinct > 1 && distinct < VARIANTS_MIN
        };
        let few: Vec<usize> = (0..self.words.len()).filter(few).collect();
        let mut parts: BTreeMap<Vec<u32>, Vec<Member>> = BTreeMap::new();
        for member in self.members {
            let key = few.iter().map(|place| member.words[*place]).collect();
            parts.entry(key).or_default().push(member);
        }
        parts.into_values()
    }
}

/// Returns the words of a template and the text between them, alternating.
fn runs(template: &[u8]) -> impl Iterator<Item = &[u8]> {
    template.chunk_by(|a, b| is_word_byte(*a) == is_word_byte(*b))
}

fn is_word(run: &[u8]) -> bool {
    run.first().is_some_and(|byte| is_word_byte(*byte))
}

/// Merges templates, which must be sorted with the most frequent first.
pub(super) fn clusters(templates: &[&[u8]]) -> Vec<Cluster> {
    let single =
        |number: usize| Cluster { template: templates[number].to_vec(), members: vec![number] };
    let (leaders, left) = leaders(templates);
    let mut found: Vec<Cluster> = left.into_iter().map(single).collect();
    for part in leaders.into_iter().flat_map(Leader::parts) {
        if part.len() < VARIANTS_MIN {
            found.extend(part.into_iter().map(|member| single(member.number)));
        } else {
            let template = template_of(templates[part[0].number], &part);
            let members = part.into_iter().map(|member| member.number).collect();
            found.push(Cluster { template, members });
        }
    }
    found.sort_by_key(|cluster| cluster.members[0]);
    found
}

/// Returns the leading templates with those that have joined them, and those that were not
/// compared.
fn leaders(templates: &[&[u8]]) -> (Vec<Leader>, Vec<usize>) {
    let mut numbers: HashMap<u64, u32, FoldState> = HashMap::default();
    let mut leaders: HashMap<u64, Vec<Leader>, FoldState> = HashMap::default();
    let (mut left, mut structure) = (Vec::new(), Vec::new());
    for (number, template) in templates.iter().take(COMPARED_MAX).enumerate() {
        structure.clear();
        let mut words = Vec::new();
        for run in runs(template) {
            if is_word(run) {
                let next = numbers.len() as u32;
                words.push(*numbers.entry(hash_bytes(run)).or_insert(next));
                structure.push(0);
            } else {
                structure.extend_from_slice(run);
            }
        }
        let alike = leaders.entry(hash_bytes(&structure)).or_default();
        if let Some(leader) = alike.iter_mut().find(|leader| leader.is_like(&words)) {
            leader.join(Member { number, words });
        } else if alike.len() < LEADERS_MAX {
            alike.push(Leader::new(Member { number, words }));
        } else {
            left.push(number);
        }
    }
    left.extend(COMPARED_MAX..templates.len());
    (leaders.into_values().flatten().collect(), left)
}

/// Returns the template with `*` in place of the words in which some members differ.
fn template_of(first: &[u8], members: &[Member]) -> Vec<u8> {
    let (mut template, mut place) = (Vec::new(), 0);
    for run in runs(first) {
        let mut same = true;
        if is_word(run) {
            same = members.iter().all(|member| member.words[place] == members[0].words[place]);
            place += 1;
        }
        template.extend_from_slice(if same { run } else { b"*" });
    }
    template
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Vec<(String, usize)> {
        let templates: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        let found = clusters(&templates);
        let all: usize = found.iter().map(|cluster| cluster.members.len()).sum();
        assert_eq!(all, texts.len(), "each is in one cluster");
        let shown = |cluster: Cluster| {
            (String::from_utf8(cluster.template).unwrap(), cluster.members.len())
        };
        found.into_iter().map(shown).collect()
    }

    #[test]
    fn names_in_messages_make_no_own_templates() {
        let names = ["ann", "bob", "eve", "joe", "kim", "lee"];
        let logins: Vec<String> =
            names.iter().map(|name| format!("user={name} logged in from *")).collect();
        let mut texts: Vec<&str> = logins.iter().map(String::as_str).collect();
        texts.extend(["disk full on *", "disk slow on *", "user=ann logged out from *"]);
        let found = of(&texts);
        let wanted = [
            ("user=* logged in from *", 6),
            ("disk full on *", 1),
            ("disk slow on *", 1),
            ("user=ann logged out from *", 1),
        ];
        assert_eq!(found, wanted.map(|(text, count)| (text.to_owned(), count)));
    }

    #[test]
    fn templates_merge_unless_most_words_differ() {
        let both: Vec<String> =
            (b'a'..=b'g').map(|c| format!("copy {0}{0} to {0}x on the host", c as char)).collect();
        let texts: Vec<&str> = both.iter().map(String::as_str).collect();
        assert_eq!(of(&texts), [("copy * to * on the host".to_owned(), 7)]);
        let most: Vec<String> =
            (b'a'..=b'g').map(|c| format!("copy {0}{0} to {0}x", c as char)).collect();
        assert_eq!(of(&most.iter().map(String::as_str).collect::<Vec<_>>()).len(), 7);
        assert_eq!(of(&["a b", "a c", "a d", "a e", "a f", "a g"]).len(), 6, "too few words");
    }

    #[test]
    fn templates_beyond_the_comparison_limit_stay_unmerged() {
        let texts: Vec<String> = (0..LEADERS_MAX + 50)
            .map(|n| {
                let word = |shift: usize| char::from(b'a' + (n >> shift & 15) as u8);
                format!("{0}p {1}q {2}r", word(0), word(4), word(8))
            })
            .collect();
        of(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
