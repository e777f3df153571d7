use std::time::Duration;

use pretty_assertions::assert_eq;

use super::*;
use crate::engine::scripted::Scripted;
use crate::process::Exit;

/// A process that waits for its next turn, as an engine does.
fn waiting() -> Resident {
    let child = Child::spawn(&CommandSpec::new("cat", "/"), Keep::default(), Limits::default()).unwrap();
    let (decoder, session) = (Scripted.decoder(), SessionId::new("s"));
    Resident { child, decoder, window: None, session, started_with: steady(&engine::example_launch()) }
}

#[tokio::test(start_paused = true)]
async fn r7_1_what_is_idle_for_thirty_minutes_expires_and_what_works_meanwhile_does_not() {
    let (residents, builder, scout) = (Residents::default(), AgentName::from("builder"), AgentName::from("scout"));
    for agent in [&builder, &scout] {
        assert_eq!(residents.pool.borrow_mut().lease(agent), Lease::Start { evict: None });
        residents.give_back(agent, waiting());
    }
    let began = Instant::now();
    tokio::time::advance(Duration::from_secs(1000)).await;
    assert_eq!(residents.pool.borrow_mut().lease(&builder), Lease::Warm);
    let at_work = residents.take(&builder).unwrap();
    assert_eq!(residents.next_expiry().await, std::slice::from_ref(&scout));
    assert_eq!(began.elapsed().as_secs(), 1800);
    assert!(residents.take(&scout).is_some());
    // Nothing is idle, so nothing expires until something is given back.
    assert!(tokio::time::timeout(Duration::from_secs(7200), residents.next_expiry()).await.is_err());
    residents.give_back(&builder, at_work);
    let released = Instant::now();
    assert_eq!(residents.next_expiry().await, [builder]);
    assert_eq!(released.elapsed().as_secs(), 1800);
}

#[tokio::test(start_paused = true)]
async fn r7_1_a_fifth_process_takes_the_place_of_the_one_that_has_been_idle_longest() {
    let residents = Residents::default();
    for agent in ["a", "b", "c", "d"] {
        let agent = AgentName::from(agent);
        residents.pool.borrow_mut().lease(&agent);
        residents.give_back(&agent, waiting());
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    let lease = |agent: &str| residents.pool.borrow_mut().lease(&AgentName::from(agent));
    assert_eq!(lease("a"), Lease::Warm);
    assert_eq!(lease("e"), Lease::Start { evict: Some(AgentName::from("b")) });
    assert_eq!((lease("c"), lease("d")), (Lease::Warm, Lease::Warm));
    assert_eq!(lease("f"), Lease::Outside);
}

#[tokio::test]
async fn a_process_fits_its_own_session_and_start_only() {
    let resident = waiting();
    let launch = engine::example_launch();
    let resumes = |session: &str| Launch { session: SessionChoice::Resume(SessionId::new(session)), ..launch.clone() };
    assert!(resident.fits(&Launch { leg: 2, turn: 7, phase: "03_fix_1".to_owned(), ..resumes("s") }));
    for other in [
        launch.clone(),
        resumes("t"),
        Launch { model: "opus".to_owned(), ..resumes("s") },
        Launch { level: None, ..resumes("s") },
        Launch { system: "You test.".to_owned(), ..resumes("s") },
    ] {
        assert!(!resident.fits(&other), "{other:?}");
    }
}

#[tokio::test]
async fn r7_3_the_death_of_a_waiting_process_is_seen_without_a_word_from_it() {
    let mut child = waiting().child;
    assert!(!child.has_exited());
    child.close_stdin();
    while child.line().await.is_some() {}
    let ended = child.finish(Finish::Closing, &mut |_| {}).await;
    assert_eq!(ended.exit, Exit::Code(0));
    let killed = waiting().child;
    let pid = rustix::process::Pid::from_raw(i32::try_from(killed.identity().pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    while !killed.has_exited() {
        tokio::task::yield_now().await;
    }
    let ended = killed.finish(Finish::Closing, &mut |_| {}).await;
    assert_eq!(ended.exit, Exit::Signal(9));
}
