//! What ships: the roster and the prompts that hold until a file says otherwise.

use super::document::Document;
use super::problem::BUILT_IN;
use super::table::FILE;

/// System and user prompt of a role.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RolePrompts {
    pub(crate) role: &'static str,
    /// Fixed text without variables, so that all runs share the provider's cache of it.
    pub(crate) system: &'static str,
    pub(crate) user: &'static str,
}

macro_rules! prompts {
    ($($role:literal),*) => {
        [$(RolePrompts {
            role: $role,
            system: include_str!(concat!("builtin/", $role, "/system.md")),
            user: include_str!(concat!("builtin/", $role, "/user.md")),
        }),*]
    };
}

/// The prompts by role; the last ones serve every name that has none of its own.
pub(crate) static PROMPTS: [RolePrompts; 7] =
    prompts!["planner", "builder", "scout", "tester", "reviewer", "documenter", "generic"];

/// The prompts of an agent by its name.
pub(crate) fn prompts(agent: &str) -> RolePrompts {
    let generic = PROMPTS[PROMPTS.len() - 1];
    PROMPTS.into_iter().find(|prompts| prompts.role == agent).unwrap_or(generic)
}

/// The lowest layer, in the shape of the file.
pub(crate) fn layer() -> Document {
    let (document, findings) = Document::read(BUILT_IN, include_str!("builtin/roster.yaml").to_owned(), FILE);
    debug_assert!(findings.problems.is_empty(), "{:?}", findings.problems);
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r3_5_built_in_system_prompts_are_long_enough_and_have_no_variables() {
        for prompts in &PROMPTS {
            assert!(prompts.system.len() >= 500, "{}", prompts.role);
            assert!(!prompts.system.contains("{{") && !prompts.system.contains("{%"), "{}", prompts.role);
        }
    }

    #[test]
    fn unknown_roles_get_the_generic_prompts() {
        assert_eq!(prompts("builder").role, "builder");
        assert_eq!(prompts("painter").role, "generic");
    }

    #[test]
    fn the_built_in_layer_is_a_valid_file() {
        let (_, findings) = Document::read("x", include_str!("builtin/roster.yaml").to_owned(), FILE);
        assert_eq!((findings.problems, findings.warnings), (vec![], vec![]));
    }
}
