//! Whom to believe: a C2SP tlog-policy. The keys of a log, its witnesses, and how many of them must have signed.

use super::key::VerifierKey;

/// The policy as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustPolicy {
    logs: Vec<VerifierKey>,
    witnesses: Vec<(String, VerifierKey)>,
    groups: Vec<Group>,
    quorum: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    name: String,
    needed: usize,
    members: Vec<String>,
}

/// The name that stands for nobody.
const NONE: &str = "none";

/// The name of the group that [`TrustPolicy::witnessed_by`] makes.
const GIVEN: &str = "given";

impl TrustPolicy {
    /// These keys and no witness.
    #[must_use]
    pub fn of_logs(logs: Vec<VerifierKey>) -> Self {
        Self { logs, ..Self::default() }
    }

    /// The same, where `quorum` of these witnesses must have signed.
    ///
    /// # Errors
    /// A sentence, if a key is no witness's, stands there twice, or there are fewer than must sign.
    pub fn witnessed_by(mut self, witnesses: Vec<VerifierKey>, quorum: usize) -> Result<Self, String> {
        let mut members = Vec::new();
        for key in witnesses {
            members.push(key.to_string());
            self.add_witness(key.to_string(), key)?;
        }
        self.add_group(GIVEN.to_owned(), quorum, members)?;
        self.quorum = Some(GIVEN.to_owned());
        Ok(self)
    }

    /// Reads a policy file.
    ///
    /// # Errors
    /// A sentence with the line and what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut policy = Self::default();
        for (n, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            policy.line(line).map_err(|why| format!("line {n}: {why}"))?;
        }
        if policy.logs.is_empty() {
            return Err("it names no log: expected a line `log name+id+key`".to_owned());
        }
        Ok(policy)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["log", key] | ["log", key, _] => {
                let key: VerifierKey = key.parse().map_err(|error| format!("{error}"))?;
                if key.is_witness() {
                    return Err("the key of a `log` line is a witness's".to_owned());
                }
                if !self.logs.contains(&key) {
                    self.logs.push(key);
                }
                Ok(())
            }
            ["witness", name, key] | ["witness", name, key, _] => {
                let key = key.parse().map_err(|error| format!("{error}"))?;
                self.add_witness((*name).to_owned(), key)
            }
            ["group", name, needed, members @ ..] => {
                let needed = match *needed {
                    "any" => 1,
                    "all" => members.len(),
                    number => number
                        .parse()
                        .map_err(|_| format!("`{number}` is none of `any`, `all` and a number"))?,
                };
                let members = members.iter().map(|member| (*member).to_owned()).collect();
                self.add_group((*name).to_owned(), needed, members)
            }
            ["quorum", name] if self.quorum.is_some() => Err(format!("`quorum {name}` is the second quorum")),
            ["quorum", name] => {
                if *name != NONE && !self.knows(name) {
                    return Err(format!("nothing above is named `{name}`"));
                }
                self.quorum = Some((*name).to_owned());
                Ok(())
            }
            _ => Err("expected `log KEY`, `witness NAME KEY`, `group NAME N MEMBERS` or `quorum NAME`".to_owned()),
        }
    }

    fn knows(&self, name: &str) -> bool {
        self.witnesses.iter().any(|(known, _)| known == name) || self.groups.iter().any(|group| group.name == name)
    }

    fn add_witness(&mut self, name: String, key: VerifierKey) -> Result<(), String> {
        if !key.is_witness() {
            return Err(format!("the key of `{}` is a log's and no witness's", key.name()));
        }
        if name == NONE || self.knows(&name) {
            return Err(format!("`{name}` stands for something else already"));
        }
        if self.witnesses.iter().any(|(_, known)| known.public() == key.public()) {
            // Two names for one key would count as two witnesses.
            return Err(format!("the key of `{name}` is another witness's too"));
        }
        self.witnesses.push((name, key));
        Ok(())
    }

    fn add_group(&mut self, name: String, needed: usize, members: Vec<String>) -> Result<(), String> {
        if name == NONE || self.knows(&name) {
            return Err(format!("`{name}` stands for something else already"));
        }
        if let Some(unknown) = members.iter().find(|member| !self.knows(member)) {
            return Err(format!("nothing above is named `{unknown}`"));
        }
        let mut once = members.clone();
        once.sort();
        once.dedup();
        if once.len() != members.len() {
            return Err(format!("`{name}` has a member twice"));
        }
        if needed == 0 || needed > members.len() {
            return Err(format!("{needed} of {} members can never sign", members.len()));
        }
        self.groups.push(Group { name, needed, members });
        Ok(())
    }

    /// The keys of the log.
    #[must_use]
    pub fn logs(&self) -> &[VerifierKey] {
        &self.logs
    }

    /// The keys of the witnesses.
    #[must_use]
    pub fn witnesses(&self) -> Vec<VerifierKey> {
        self.witnesses.iter().map(|(_, key)| key.clone()).collect()
    }

    /// Whether witnesses must have signed.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.quorum.as_deref().is_some_and(|name| name != NONE)
    }

    /// Whether those who signed are enough.
    #[must_use]
    pub fn is_met_by(&self, signers: &[&VerifierKey]) -> bool {
        match self.quorum.as_deref() {
            None | Some(NONE) => true,
            Some(name) => self.has_signed(name, signers),
        }
    }

    /// Groups name only what stands above them, so this ends.
    fn has_signed(&self, name: &str, signers: &[&VerifierKey]) -> bool {
        if let Some((_, key)) = self.witnesses.iter().find(|(known, _)| known == name) {
            return signers.contains(&key);
        }
        let group = self.groups.iter().find(|group| group.name == name);
        group.is_some_and(|group| {
            let signed = group.members.iter().filter(|member| self.has_signed(member, signers));
            signed.count() >= group.needed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "broker.example/audit/test1+79602d21+Aa/lmHQJuW/oLLH2WLItsiGWGBelhbBz1dwOnDZT9Fxr";

    fn witness(n: u8) -> VerifierKey {
        VerifierKey::witness(format!("witness.example/w{n}").parse().unwrap(), [n; 32])
    }

    fn policy(rest: &str) -> Result<TrustPolicy, String> {
        let named: String = (1..=3).map(|n| format!("witness w{n} {}\n", witness(n))).collect();
        TrustPolicy::parse(&format!("# whom we believe\n\nlog {LOG}\n{named}{rest}"))
    }

    #[test]
    fn a_policy_that_cannot_be_met_or_counts_somebody_twice_is_refused() {
        for (bad, why) in [
            ("group g 3 w1 w2\n", "can never sign"),
            ("group g 0 w1\n", "can never sign"),
            ("group g all\n", "can never sign"),
            ("group g 2 w1 w1\n", "twice"),
            ("group g 1 w9\n", "nothing above"),
            ("quorum g\n", "nothing above"),
            ("group w1 1 w2\n", "something else"),
            ("quorum w1\nquorum w2\n", "second"),
            ("witnesses w1\n", "expected"),
            ("log nonsense\n", "form"),
        ] {
            let told = policy(bad).unwrap_err();
            assert!(told.contains(why), "{bad}: {told}");
        }
        let twice = format!("witness again {}\n", witness(1));
        assert!(policy(&twice).unwrap_err().contains("another witness's"));
        assert!(TrustPolicy::parse("# nothing\n").unwrap_err().contains("names no log"));
        let wrong = format!("witness w4 {LOG}\n");
        assert!(policy(&wrong).unwrap_err().contains("no witness's"));
    }

    #[test]
    fn groups_count_their_members_and_other_groups() {
        let policy = policy("group two 2 w1 w2 w3\ngroup all-of-us all two w1\nquorum all-of-us\n").unwrap();
        let keys: Vec<VerifierKey> = (1..=3).map(witness).collect();
        let met = |of: &[usize]| policy.is_met_by(&of.iter().map(|n| &keys[*n - 1]).collect::<Vec<_>>());
        assert!(!met(&[]) && !met(&[1]) && !met(&[2, 3]));
        assert!(met(&[1, 2]) && met(&[1, 2, 3]));
        let given = TrustPolicy::default().witnessed_by(keys.clone(), 2).unwrap();
        assert!(!given.is_met_by(&[&keys[0]]) && given.is_met_by(&[&keys[0], &keys[2]]));
        assert!(TrustPolicy::default().is_met_by(&[]));
        assert!(TrustPolicy::default().witnessed_by(keys, 4).is_err());
    }
}
