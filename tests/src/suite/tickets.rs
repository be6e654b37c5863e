//! Batches in flight: whose a ticket is, tickets that are dropped, receivers that fail, and starting anew.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use scheidegg::{Backend, Error, Finder, Frames, Result, Ticket};

use super::protocol::{SHAPE, photons, trained};
use super::{Check, Outcome, holds, refused};
use crate::case::{self, Case};

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::new("tickets", tickets),
        Check::new("a ticket of another finder", foreign),
        Check::new("tickets that were dropped", dropped),
        Check::new("training with batches in flight", busy),
        Check::new("an error of the receiver stops find and spares the finder", receiver_fails),
        Check::new("a panic of the receiver spares the finder", receiver_panics),
        Check::new("a run that failed starts anew", anew),
    ]
}

fn wrong(e: &Error) -> bool {
    matches!(e, Error::WrongTicket { .. })
}

fn full(e: &Error) -> bool {
    matches!(e, Error::SlotsFull { .. })
}

/// The ticket in an error that refused it.
fn given_back<T>(what: &str, result: Result<T>) -> Result<Ticket, String> {
    match result {
        Err(Error::WrongTicket { ticket, .. }) => Ok(ticket),
        Err(e) => Err(format!("{what}: the wrong error: {e}")),
        Ok(_) => Err(format!("{what}: accepted")),
    }
}

fn tickets(backend: &dyn Backend) -> Outcome {
    let case = photons(40);
    let mut finder = trained(backend, &case)?;
    let slots = finder.slots();
    holds(slots > 0 && finder.batch_frames() > 0 && finder.max_batch_frames() > 0, || "no slot".into())?;
    let frames = case.data_frames();
    for round in 0..3 {
        let mut flight = Vec::new();
        for k in 0..slots {
            holds(finder.in_flight() == k, || format!("{} of {k} in flight", finder.in_flight()))?;
            flight.push(finder.submit(frames.slice((round + k) % 40, 1))?);
        }
        refused("one batch more than slots", finder.submit(frames.slice(0, 1)).map(drop), full)?;
        for (i, ticket) in flight.iter().enumerate() {
            let want = (round * slots + i) as u64;
            holds(ticket.number() == want, || format!("{ticket}, expected {want}"))?;
        }
        if slots > 1 {
            let younger = flight.swap_remove(1);
            let number = younger.number();
            let again = given_back("a younger ticket", finder.collect(younger).map(drop))?;
            holds(again.number() == number, || format!("{again} was given back for {number}"))?;
            flight.push(again);
            flight.sort_unstable_by_key(Ticket::number);
        }
        for (k, ticket) in flight.into_iter().enumerate() {
            let number = finder.collect(ticket)?.numbers().to_vec();
            let want = ((round + k) % 40) as u64;
            holds(number == [want], || format!("frames {number:?}, expected [{want}]"))?;
        }
        holds(finder.in_flight() == 0, || "in flight after all were collected".into())?;
    }
    Ok(())
}

/// Two finders of one backend: neither takes the other's tickets, and no batch is lost by that.
fn foreign(backend: &dyn Backend) -> Outcome {
    let case = photons(2);
    let (mut a, mut b) = (trained(backend, &case)?, trained(backend, &case)?);
    let frames = case.data_frames();
    let mut its = a.submit(frames.slice(0, 1))?;
    its = given_back("a ticket of another finder, none in flight", b.collect(its).map(drop))?;
    let own = b.submit(frames.slice(1, 1))?;
    its = given_back("a ticket of another finder", b.collect(its).map(drop))?;
    holds(b.in_flight() == 1, || format!("{} in flight, expected 1", b.in_flight()))?;
    let (in_a, in_b) = (a.collect(its)?.numbers().to_vec(), b.collect(own)?.numbers().to_vec());
    holds((&in_a[..], &in_b[..]) == (&[0], &[1]), || format!("frames {in_a:?} and {in_b:?}"))
}

/// What a finder with `given` frames of the case behind it must still return, and does.
fn goes_on(finder: &mut dyn Finder, backend: &dyn Backend, case: &Case, given: usize) -> Outcome {
    let all = case::run(backend, case, false)?;
    let before = finder.statistics();
    let mut got = case::Outcome::default();
    let frames = case.data_frames();
    case::find(finder, frames.slice(given, frames.len() - given), &[3, 1], &mut got)?;
    let first = all.offsets[given];
    let b = scheidegg::record_bytes(case.params.size, case.params.payload);
    let mut want = case::Outcome {
        numbers: all.numbers[given..].to_vec(),
        offsets: all.offsets[given..].iter().map(|o| o - first).collect(),
        records: all.records[first as usize * b..].to_vec(),
        pedestals: all.pedestals,
        ..case::Outcome::default()
    };
    want.statistics.frames = want.numbers.len() as u64;
    want.statistics.clusters = want.offsets[want.numbers.len()];
    for lane in 0..case.params.lanes {
        got.pedestals.push(finder.pedestal(lane)?);
    }
    let after = finder.statistics();
    got.statistics.frames = after.frames - before.frames;
    got.statistics.clusters = after.clusters - before.clusters;
    match case::difference(case, &want, &got) {
        None => Ok(()),
        Some(what) => Err(format!("afterwards: {what}").into()),
    }
}

/// A finder whose slots are full of batches that nobody can collect says so; once they are abandoned it goes on behind
/// them, and counts none of their clusters.
fn dropped(backend: &dyn Backend) -> Outcome {
    let mut case = photons(30);
    case.params.lanes = 2;
    let mut finder = trained(backend, &case)?;
    let slots = finder.slots();
    let frames = case.data_frames();
    for k in 0..slots {
        drop(finder.submit(frames.slice(k, 1))?);
    }
    let outcome = finder.submit(frames.slice(slots, 1)).map(drop);
    refused("a batch more than slots", outcome, |e| full(e) && e.to_string().contains("abandon"))?;
    refused("find with batches in flight", finder.find(frames, &mut |_| Ok(())), full)?;
    let abandoned = finder.abandon();
    holds(abandoned == slots && finder.in_flight() == 0, || {
        format!("{abandoned} batches abandoned of {slots}, {} in flight", finder.in_flight())
    })?;
    holds(finder.abandon() == 0, || "abandoned twice".into())?;
    let s = finder.statistics();
    holds((s.frames, s.clusters) == (0, 0), || format!("{s:?} without a batch collected"))?;
    goes_on(finder.as_mut(), backend, &case, slots)?;
    // A ticket that outlived its batch is refused.
    let old = finder.submit(frames.slice(0, 1))?;
    finder.abandon();
    let new = finder.submit(frames.slice(1, 1))?;
    refused("a ticket whose batch was abandoned", finder.collect(old).map(drop), wrong)?;
    let number = finder.collect(new)?.numbers().to_vec();
    holds(number == [1], || format!("frames {number:?}, expected [1]"))
}

fn busy(backend: &dyn Backend) -> Outcome {
    let case = photons(2);
    let mut finder = trained(backend, &case)?;
    let pedestal = finder.pedestal(0)?;
    let ticket = finder.submit(case.data_frames().slice(0, 1))?;
    refused("dark frames with a batch in flight", finder.train(case.dark_frames()), full)?;
    refused("new noise with a batch in flight", finder.refresh_noise(), full)?;
    refused("a pedestal with a batch in flight", finder.set_pedestal(&pedestal), full)?;
    finder.collect(ticket)?;
    finder.train(case.dark_frames())?;
    Ok(finder.set_pedestal(&pedestal)?)
}

fn receiver_fails(backend: &dyn Backend) -> Outcome {
    let case = photons(4);
    let mut finder = trained(backend, &case)?;
    let many: Vec<u16> = case.data.iter().copied().cycle().take(case.data.len() * 100).collect();
    let mut calls = 0;
    let outcome = finder.find(Frames::new(&many, SHAPE)?, &mut |_| {
        calls += 1;
        Err(Error::Stopped)
    });
    refused("an error of the receiver", outcome, |e| matches!(e, Error::Stopped))?;
    holds(calls == 1, || format!("{calls} calls after an error"))?;
    // Nothing is left in flight.
    let ticket = finder.submit(case.data_frames().slice(0, 1))?;
    let frames = finder.collect(ticket)?.frames();
    holds(frames == 1, || format!("{frames} frames afterwards, expected 1"))
}

/// A receiver that panics in its second call.
fn panics(finder: &mut dyn Finder, frames: Frames<'_>) -> Outcome {
    let mut calls = 0;
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        finder.find(frames, &mut |_| {
            calls += 1;
            if calls == 2 {
                // Without the words of a panic that nobody expects.
                resume_unwind(Box::new("a receiver's fault"));
            }
            Ok(())
        })
    }));
    holds(unwound.is_err() && calls == 2, || format!("{calls} calls, no panic came through"))?;
    holds(finder.in_flight() == 0, || format!("{} batches in flight after a panic", finder.in_flight()))
}

/// A case with more frames than fit into the slots and a batch more.
fn long(finder: &dyn Finder) -> Case {
    photons(finder.batch_frames().min(64) * (finder.slots() + 2))
}

fn receiver_panics(backend: &dyn Backend) -> Outcome {
    let case = long(backend.build(SHAPE, &photons(0).params)?.as_ref());
    let mut finder = trained(backend, &case)?;
    let many: Vec<u16> = case.data.iter().copied().cycle().take(case.data.len() * 40).collect();
    panics(finder.as_mut(), Frames::new(&many, SHAPE)?)?;
    let ticket = finder.submit(case.data_frames().slice(0, 1))?;
    let frames = finder.collect(ticket)?.frames();
    holds(frames == 1, || format!("{frames} frames afterwards, expected 1"))
}

/// Whatever went wrong in a run, a pedestal that is set begins a new one like the first.
fn anew(backend: &dyn Backend) -> Outcome {
    let mut case = photons(23);
    case.params.lanes = 3;
    let want = case::run(backend, &case, false)?;
    let mut finder = trained(backend, &case)?;
    let saved = finder.pedestal(0)?;
    let many: Vec<u16> = case.data.iter().copied().cycle().take(case.data.len() * 100).collect();
    let many = Frames::new(&many, SHAPE)?;
    for fault in 0..4 {
        match fault {
            0 => panics(finder.as_mut(), many)?,
            1 => refused("a receiver's error", finder.find(many, &mut |_| Err(Error::Stopped)), |e| {
                matches!(e, Error::Stopped)
            })?,
            2 => {
                drop(finder.submit(case.data_frames().slice(0, 1))?);
                refused("a pedestal with a batch in flight", finder.set_pedestal(&saved), full)?;
                finder.abandon();
            }
            _ => {
                let ticket = finder.submit(case.data_frames().slice(0, 1))?;
                finder.collect(ticket)?;
            }
        }
        finder.set_pedestal(&saved)?;
        let mut again = case.clone();
        again.steps.retain(|step| matches!(step, case::Step::Find(..)));
        let got = case::run_on(finder.as_mut(), &again, false)?;
        if let Some(what) = case::difference(&case, &want, &got) {
            return Err(format!("after fault {fault}: {what}").into());
        }
    }
    Ok(())
}
