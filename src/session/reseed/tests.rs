use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

const ROTATED: Fresh = Fresh::Rotated { reason: RotationReason::Ceiling, context_tokens: Some(187_342), cap: 180_000 };

fn render(fresh: Fresh, changed: &[RepoPath]) -> String {
    let digest = ".fia/runs/20261130-142210-k3fa/agents/builder/02_build.1.digest.md";
    let transcript = ".fia/runs/20261130-142210-k3fa/agents/builder/pi_session.1.rotated.jsonl";
    Preamble { fresh, changed, digest: Some(digest), transcript: Some(transcript), report_below: true }.render()
}

#[test]
fn r6_6_a_preamble_tells_why_what_was_changed_and_how_to_go_on() {
    assert_eq!(
        render(ROTATED, &["src/health.rs".into(), "test/health.rs".into()]),
        "# Fresh session: ceiling reached (187342 tokens >= 180000)\n\n\
         This is the same run, and you have worked in it before; only your conversation is new. \
         Do not start from scratch: your earlier work is in the work tree.\n\n\
         Changed by this run so far:\n- src/health.rs\n- test/health.rs\n\n\
         The earlier session, read-only, for reference:\n\
         - digest: .fia/runs/20261130-142210-k3fa/agents/builder/02_build.1.digest.md\n\
         - full transcript: .fia/runs/20261130-142210-k3fa/agents/builder/pi_session.1.rotated.jsonl\n\n\
         Rules:\n\
         - The workspace is the authority: where it and a note differ, believe the workspace.\n\
         - Read the reference selectively: search it for what you need, never load it whole.\n\
         - Trust the previous report below; do not do its work again.\n\n"
    );
}

#[test]
fn r6_6_empty_sections_vanish() {
    let bare = Preamble { fresh: ROTATED, changed: &[], digest: None, transcript: None, report_below: false }.render();
    assert_eq!(bare.matches('\n').count(), 8, "{bare}");
    for absent in ["Changed", "earlier session", "previous report"] {
        assert!(!bare.contains(absent), "{bare}");
    }
}

#[test]
fn r6_5_the_first_line_says_why() {
    let rotated = |reason| Fresh::Rotated { reason, context_tokens: Some(9), cap: 5 };
    for (fresh, word) in [
        (rotated(RotationReason::Ceiling), "ceiling"),
        (rotated(RotationReason::MidPhase), "ceiling"),
        (rotated(RotationReason::BreakEven), "price"),
        (rotated(RotationReason::Expired), "cache expired"),
        (rotated(RotationReason::Overflow), "overflow"),
        (Fresh::Retired(RetirementReason::SessionLost), "session lost"),
        (Fresh::Retired(RetirementReason::ModelChanged), "model changed"),
        (Fresh::Continued, "died"),
    ] {
        let text = render(fresh, &[]);
        assert!(text.lines().next().unwrap().contains(word), "{fresh:?}: {text}");
    }
}

#[test]
fn r6_6_the_preamble_stays_under_2048_bytes_for_0_1_50_and_10_000_paths() {
    for count in [0, 1, 50, 10_000] {
        let changed: Vec<RepoPath> =
            (0..count).map(|number| format!("src/part_{number:05}.rs").as_str().into()).collect();
        let text = render(ROTATED, &changed);
        assert!(text.len() < PREAMBLE_LIMIT_BYTES, "{count}: {}", text.len());
        let named = text.matches("- src/part_").count();
        assert!(named <= MAX_PATHS, "{named}");
        if count > named {
            assert!(text.contains(&format!("(+{} more: git status)", count - named)), "{text}");
        } else {
            assert!(!text.contains("more: git status"), "{text}");
        }
    }
}

#[test]
fn r6_6_a_path_of_4000_characters_is_counted_not_cut() {
    let long = "é".repeat(4000);
    let text = render(ROTATED, &[long.as_str().into(), "src/short.rs".into()]);
    assert!(text.len() < PREAMBLE_LIMIT_BYTES);
    assert!(text.contains("- src/short.rs\n(+1 more: git status)\n"), "{text}");
    assert!(!text.contains('é'), "{text}");
}

fn any_fresh() -> impl Strategy<Value = Fresh> {
    let reasons = [
        RotationReason::Ceiling,
        RotationReason::BreakEven,
        RotationReason::Expired,
        RotationReason::MidPhase,
        RotationReason::Overflow,
    ];
    prop_oneof![
        (prop::sample::select(reasons.to_vec()), any::<Option<u64>>(), any::<u64>())
            .prop_map(|(reason, context_tokens, cap)| Fresh::Rotated { reason, context_tokens, cap }),
        Just(Fresh::Retired(RetirementReason::SessionLost)),
        Just(Fresh::Retired(RetirementReason::ModelChanged)),
        Just(Fresh::Continued),
    ]
}

fn any_path() -> impl Strategy<Value = RepoPath> {
    prop_oneof![
        4 => "[a-z/é漢🦀]{1,40}".prop_map(|text| text.as_str().into()),
        1 => "\\PC{0,2100}".prop_map(|text| text.as_str().into()),
        1 => prop::collection::vec(any::<u8>(), 0..300).prop_map(RepoPath::new),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn r6_6_the_preamble_is_under_2048_bytes_whatever_goes_in(
        fresh in any_fresh(),
        changed in prop::collection::vec(any_path(), 0..70),
        digest in prop::option::of("\\PC{0,500}"),
        transcript in prop::option::of("\\PC{0,500}"),
        report_below in any::<bool>(),
    ) {
        let text = Preamble {
            fresh, changed: &changed, digest: digest.as_deref(), transcript: transcript.as_deref(), report_below,
        }.render();
        prop_assert!(text.len() < PREAMBLE_LIMIT_BYTES, "{}", text.len());
        prop_assert!(text.ends_with("\n\n"));
        // No path is cut: each line of the list is a whole path or the count of those left out.
        let whole: Vec<String> = changed.iter().map(|path| format!("- {path}")).collect();
        if let Some((_, list)) = text.split_once("so far:\n") {
            let list = list.split("\n\n").next().unwrap_or_default();
            let named = list.lines().filter(|line| whole.iter().any(|path| path == line)).count();
            let left_out = changed.len() - named;
            let told = list.lines().any(|line| line == format!("(+{left_out} more: git status)"));
            prop_assert_eq!(told, left_out > 0, "{}", list);
        }
    }
}
