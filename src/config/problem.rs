//! What is wrong with a config, and what is merely odd: both with file, line, column and key.

use std::fmt;

use super::yaml::Mark;

/// How the built-in layer is named in origins.
pub(crate) const BUILT_IN: &str = "built-in";

/// The config cannot be used; holds every reason at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The reasons, in the order of the files; never empty.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    /// Succeeds when there is no problem.
    ///
    /// # Errors
    ///
    /// All of `problems`, sorted by place.
    pub fn unless_empty(mut problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() {
            return Ok(());
        }
        problems.sort_by(|a, b| (&a.file, a.mark).cmp(&(&b.file, b.mark)));
        Err(Self { problems })
    }

    /// What the reader can do about it, beyond what the problems say.
    pub fn hint(&self) -> &'static str {
        if self.problems.iter().all(|problem| problem.file.starts_with(BUILT_IN)) {
            "a workflow that ships needs it in `fia.config.yaml`, as in `checks: { test: { run: \"make test\" } }`; \
             `fia init` writes the file if there is none"
        } else if self.problems.iter().any(|problem| problem.mark.is_some()) {
            "`fia config schema` prints a JSON Schema for your editor"
        } else if self.problems.iter().any(|problem| problem.file.starts_with("the command line")) {
            "`fia workflows` lists the workflows, `fia run --help` the arguments"
        } else {
            "`fia config show` prints what is in force, `fia run --help` how to choose otherwise"
        }
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

impl fmt::Display for ConfigError {
    /// A heading, then one line a problem; the file stands in the heading when there is but one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.problems.first().map_or("", |problem| problem.file.as_str());
        let one_file = self.problems.iter().all(|problem| problem.file == first);
        match self.problems.len() {
            1 => write!(f, "1 problem")?,
            many => write!(f, "{many} problems")?,
        }
        if one_file {
            write!(f, " in {first}")?;
        }
        let place = |problem: &Problem| match (one_file, problem.mark) {
            (true, None) => String::new(),
            (true, Some(mark)) => format!("{}:{}", mark.line, mark.column),
            (false, None) => problem.file.clone(),
            (false, Some(mark)) => format!("{}:{}:{}", problem.file, mark.line, mark.column),
        };
        let width = self.problems.iter().map(|problem| place(problem).chars().count()).max().unwrap_or(0);
        for problem in &self.problems {
            let space = if width == 0 { "" } else { " " };
            write!(f, "\n  {:width$}{space}", place(problem))?;
            problem.fmt_text(f)?;
        }
        Ok(())
    }
}

/// One mistake in what the user wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file as shown, or what else it was read from (`--use`).
    pub file: String,
    /// Where in it.
    pub mark: Option<Mark>,
    /// The key, as in `agents[1].writes`; empty where none is concerned.
    pub key: String,
    /// What is wrong, as a fragment.
    pub message: String,
    /// The line in question, for text that is no YAML at all.
    pub excerpt: Option<String>,
}

impl Problem {
    /// A problem with a file or flag as a whole.
    pub fn with(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { file: file.into(), mark: None, key: String::new(), message: message.into(), excerpt: None }
    }

    fn fmt_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        for line in self.excerpt.iter().flat_map(|excerpt| excerpt.lines()) {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(Mark { line, column }) = self.mark {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, " ")?;
        self.fmt_text(f)
    }
}

/// Something that stands although it is probably not meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning(pub Problem);

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The known name that is nearest to an unknown one, as `; did you mean …?`, or nothing when none is near.
pub(crate) fn did_you_mean<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let near = known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(unknown, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.chars().count() / 4 && *distance < unknown.chars().count())
        .min_by_key(|(distance, _)| *distance);
    near.map_or_else(String::new, |(_, name)| format!("; did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(file: &str, line: usize, key: &str) -> Problem {
        let mark = Some(Mark { line, column: 5 });
        Problem { mark, key: key.into(), ..Problem::with(file, "empty entry") }
    }

    #[test]
    fn problems_of_one_file_name_it_once_in_order_and_aligned() {
        let error = ConfigError::unless_empty(vec![problem("a.yaml", 14, "b"), problem("a.yaml", 2, "")]).unwrap_err();
        assert_eq!(error.to_string(), "2 problems in a.yaml\n  2:5  empty entry\n  14:5 b: empty entry");
    }

    #[test]
    fn problems_of_several_files_name_each() {
        let error = ConfigError::unless_empty(vec![problem("b.md", 1, "k"), problem("a.yaml", 2, "")]).unwrap_err();
        assert_eq!(error.to_string(), "2 problems\n  a.yaml:2:5 empty entry\n  b.md:1:5   k: empty entry");
    }

    #[test]
    fn near_names_are_offered_and_far_ones_are_not() {
        assert_eq!(did_you_mean("moddel", ["model", "effort"]), "; did you mean `model`?");
        assert_eq!(did_you_mean("zebra", ["model", "effort"]), "");
    }
}
