//! The suite must notice a backend that is wrong: the oracle, sabotaged in one place after the other.

use std::collections::VecDeque;

use scheidegg::{
    Backend, Clusters, ClustersBuf, Error, Finder, Frames, Noise, Params, Pedestal, Plane, Probe, Result,
    Shape, Statistics, Ticket, Tickets, Ties, Update,
};
use scheidegg_conformance::suite::{self, Options};
use scheidegg_cpu::OracleBackend;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Nothing,
    /// No fault: batches of more than one frame are refused, and announced as such.
    OneFrameABatch,
    Name,
    Ties,
    Test2,
    Serial,
    FixedNoise,
    NoiseFloor,
    NSigma,
    Lanes,
    Mask,
    LostPixels,
    LostInDarks,
    Shape,
    OneClusterLess,
    OneBitOfAValue,
    OneBitOfTheTrace,
    OneBitOfTheSum,
    Saturated,
    FrameNumbers,
    Refresh,
    SetPedestal,
    StaleClusters,
    StaleBuffer,
    /// Any ticket collects the oldest batch.
    AnyTicket,
    /// A ticket that is refused is not given back.
    TicketLost,
    /// Batches without a ticket stay.
    NothingAbandoned,
    /// Batches that are abandoned are forgotten by the pedestal too.
    AbandonedUndone,
    /// Batches that are abandoned are counted.
    AbandonedCounted,
    /// A panic leaves batches in flight.
    StuckByPanic,
    /// A pedestal that is set does not begin a new run.
    CountedOn,
    Unavailable,
    NothingSupported,
}

struct Saboteur(Fault);

struct Sabotaged {
    fault: Fault,
    inner: Box<dyn Finder>,
    params: Params,
    out: ClustersBuf,
    /// Tickets of its own, and those of `inner` that they stand for.
    tickets: Tickets,
    held: VecDeque<Ticket>,
    submitted: u64,
}

impl Backend for Saboteur {
    fn name(&self) -> &str {
        match self.0 {
            Fault::Name => "another",
            _ => "oracle",
        }
    }
    fn summary(&self) -> &str {
        "the oracle with one fault"
    }
    fn probe(&self) -> Result<Probe> {
        match self.0 {
            Fault::Unavailable => {
                Err(Error::Unavailable { backend: "oracle".into(), reason: "a test".into() })
            }
            _ => OracleBackend::new().probe(),
        }
    }
    fn build(&self, shape: Shape, params: &Params) -> Result<Box<dyn Finder>> {
        params.validate(shape)?;
        let mut p = params.clone();
        match self.0 {
            Fault::Ties => p.ties = Ties::All,
            Fault::Test2 => p.test2 = false,
            Fault::Serial => p.update = Update::Frozen,
            Fault::FixedNoise => p.noise = Noise::Tracked,
            Fault::NoiseFloor => p.noise_floor_adu = 0.0,
            Fault::NSigma => p.n_sigma *= 1.0001,
            Fault::Mask => p.mask = None,
            Fault::NothingSupported => {
                return Err(Error::Unsupported { backend: "oracle".into(), what: "anything".into() });
            }
            _ => {}
        }
        let inner = OracleBackend::new().build(shape, &p)?;
        let out = ClustersBuf::new(shape, p.size, p.payload);
        Ok(Box::new(Sabotaged {
            fault: self.0,
            inner,
            params: params.clone(),
            out,
            tickets: Tickets::new(),
            held: VecDeque::new(),
            submitted: 0,
        }))
    }
}

/// The same frames without their lost pixels.
fn whole<'a>(frames: Frames<'a>) -> Result<Frames<'a>> {
    frames.with_lost(&[])
}

impl Finder for Sabotaged {
    fn backend(&self) -> &str {
        "oracle"
    }
    fn shape(&self) -> Shape {
        self.inner.shape()
    }
    fn params(&self) -> &Params {
        &self.params
    }
    fn train(&mut self, darks: Frames<'_>) -> Result<()> {
        if self.fault == Fault::LostInDarks {
            self.inner.train(whole(darks)?)
        } else {
            self.inner.train(darks)
        }
    }
    fn finish_training(&mut self) -> Result<()> {
        self.inner.finish_training()
    }
    fn refresh_noise(&mut self) -> Result<()> {
        match self.fault {
            Fault::Refresh => self.inner.pedestal(0).map(|_| ()),
            _ => self.inner.refresh_noise(),
        }
    }
    fn slots(&self) -> usize {
        self.inner.slots()
    }
    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
    fn abandon(&mut self) -> usize {
        match self.fault {
            Fault::NothingAbandoned => 0,
            Fault::StuckByPanic if std::thread::panicking() => 0,
            Fault::AbandonedUndone if self.inner.in_flight() > 0 => {
                let lost = self.inner.abandon();
                let pedestal = self.inner.pedestal(0).unwrap();
                self.inner.set_pedestal(&pedestal).unwrap();
                lost
            }
            _ => {
                self.held.clear();
                self.inner.abandon()
            }
        }
    }
    fn batch_frames(&self) -> usize {
        self.inner.batch_frames()
    }
    fn max_batch_frames(&self) -> usize {
        if self.fault == Fault::OneFrameABatch { 1 } else { usize::MAX }
    }
    fn submit(&mut self, frames: Frames<'_>) -> Result<Ticket> {
        self.submitted += frames.len() as u64;
        match self.fault {
            Fault::AnyTicket => {
                self.held.push_back(self.inner.submit(frames)?);
                Ok(self.tickets.issue())
            }
            Fault::OneFrameABatch if frames.len() > 1 => Err(Error::param("frames", frames.len(), "1")),
            Fault::LostPixels => self.inner.submit(whole(frames)?),
            Fault::Lanes if self.params.lanes > 1 && frames.len() > 1 => {
                // Lanes counted within the batch instead of the run.
                let pedestal = self.inner.pedestal(0)?;
                self.inner.set_pedestal(&pedestal)?;
                self.inner.submit(frames)
            }
            Fault::Shape if frames.shape().pixels() == self.shape().pixels() => {
                let same = Frames::strided(frames.as_slice(), self.shape(), frames.len(), frames.stride())?;
                self.inner.submit(if frames.shape() == self.shape() { frames } else { same })
            }
            _ => self.inner.submit(frames),
        }
    }
    fn collect_into(&mut self, ticket: Ticket, into: &mut ClustersBuf) -> Result<()> {
        if self.fault != Fault::StaleBuffer {
            into.clear();
        }
        into.append(&self.collect(ticket)?);
        Ok(())
    }
    fn collect(&mut self, ticket: Ticket) -> Result<Clusters<'_>> {
        let ticket = match self.fault {
            Fault::AnyTicket => self.held.pop_front().unwrap_or(ticket),
            Fault::TicketLost if ticket.number() > 0 && self.inner.in_flight() > 1 => {
                let reason = "is wrong".into();
                return Err(Error::WrongTicket { ticket: self.tickets.issue(), reason });
            }
            _ => ticket,
        };
        let right = self.inner.collect(ticket)?;
        let trace = right.trace().map(<[u8]>::to_vec);
        let b = right.record_bytes();
        if self.fault != Fault::StaleClusters {
            self.out.clear();
        }
        for k in 0..right.frames() {
            let mut frame = right.frame_bytes(k).to_vec();
            let mut number = right.numbers()[k];
            match self.fault {
                Fault::OneClusterLess if frame.len() > 5 * b => frame.truncate(frame.len() - b),
                Fault::OneBitOfAValue if k == 3 && !frame.is_empty() => *frame.last_mut().unwrap() ^= 1,
                Fault::FrameNumbers => number = u64::from(number as u32),
                _ => {}
            }
            self.out.push_frame(number, &frame);
        }
        if let Some(mut trace) = trace {
            if self.fault == Fault::OneBitOfTheTrace
                && let Some(last) = trace.last_mut()
            {
                *last ^= 1;
            }
            self.out.push_trace(&trace);
        }
        Ok(self.out.view())
    }
    fn pedestal(&mut self, lane: usize) -> Result<Pedestal> {
        let mut pedestal = self.inner.pedestal(lane)?;
        if self.fault == Fault::OneBitOfTheSum {
            match &mut pedestal.sum {
                Plane::F32(v) => v[0] = f32::from_bits(v[0].to_bits() ^ 1),
                Plane::F64(v) => v[0] = f64::from_bits(v[0].to_bits() ^ 1),
            }
        }
        Ok(pedestal)
    }
    fn set_pedestal(&mut self, pedestal: &Pedestal) -> Result<()> {
        match self.fault {
            Fault::SetPedestal => {
                let mut forgetful = pedestal.clone();
                forgetful.fixed_variance = None;
                self.inner.set_pedestal(&forgetful)
            }
            Fault::CountedOn => {
                // The frame number of the run goes on: empty batches cannot bring it back.
                self.inner.set_pedestal(pedestal)?;
                for _ in 0..self.submitted % self.params.lanes as u64 {
                    let zeros = vec![0; self.shape().pixels()];
                    let ticket = self.inner.submit(Frames::new(&zeros, self.shape())?)?;
                    self.inner.collect(ticket)?;
                }
                Ok(())
            }
            _ => self.inner.set_pedestal(pedestal),
        }
    }
    fn statistics(&self) -> Statistics {
        let mut statistics = self.inner.statistics();
        match self.fault {
            Fault::Saturated => statistics.saturated = 0,
            Fault::AbandonedCounted => statistics.frames = self.submitted,
            _ => {}
        }
        statistics
    }
}

fn report(fault: Fault, require: &[&str], only: &str) -> suite::Report {
    let require = require.iter().map(|w| w.to_string()).collect();
    let only = Some(only.to_string());
    suite::run(&Saboteur(fault), &Options { require, random_runs: 20, only, seed: suite::SEED })
}

#[test]
fn every_fault_is_noticed() {
    // The checks that should notice it: to run them all for every fault would take minutes.
    for (fault, only) in [
        (Fault::Name, "who runs it"),
        (Fault::Ties, "equal maxima"),
        (Fault::Test2, "test 2"),
        (Fault::Serial, "serial"),
        (Fault::FixedNoise, "frozen fixed"),
        (Fault::NoiseFloor, "noise floor"),
        (Fault::NSigma, "n_sigma"),
        (Fault::Lanes, "batches of"),
        (Fault::Mask, "masked and lost"),
        (Fault::LostPixels, "masked and lost"),
        (Fault::LostInDarks, "dark frames with lost pixels"),
        (Fault::Shape, "another shape"),
        (Fault::OneClusterLess, "random run"),
        (Fault::OneBitOfAValue, "random run"),
        (Fault::OneBitOfTheTrace, "random run"),
        (Fault::OneBitOfTheSum, "random run"),
        (Fault::Saturated, "i16 values"),
        (Fault::FrameNumbers, "frame numbers"),
        (Fault::Refresh, "new noise in between"),
        (Fault::SetPedestal, "a pedestal set again"),
        (Fault::StaleClusters, "batches of"),
        (Fault::StaleBuffer, "collected into a buffer"),
        (Fault::AnyTicket, "a ticket of another finder"),
        (Fault::AnyTicket, "tickets"),
        (Fault::TicketLost, "tickets"),
        (Fault::NothingAbandoned, "tickets that were dropped"),
        (Fault::AbandonedUndone, "tickets that were dropped"),
        (Fault::AbandonedCounted, "tickets that were dropped"),
        (Fault::StuckByPanic, "a panic of the receiver"),
        (Fault::CountedOn, "starts anew"),
        (Fault::Saturated, "f16 values"),
        (Fault::OneBitOfAValue, "golden edges_3x3"),
        (Fault::OneBitOfTheTrace, "golden edges_3x3_frozen"),
        (Fault::NothingSupported, "common case"),
    ] {
        let report = report(fault, &[], only);
        println!(
            "{fault:?}: {} of {} checks failed",
            report.failed.len(),
            report.failed.len() + report.passed.len()
        );
        assert!(!report.failed.is_empty(), "{fault:?} was not noticed by the checks {only:?}");
        let sound = self::report(Fault::Nothing, &[], only);
        assert!(sound.failed.is_empty() && !sound.passed.is_empty(), "{only}: {sound}");
    }
}

#[test]
fn a_backend_that_is_not_there_is_a_counted_skip_unless_it_is_required() {
    let skipped = report(Fault::Unavailable, &["cuda"], "");
    assert_eq!((skipped.passed.len(), skipped.skipped.len(), skipped.failed.len()), (0, 1, 0));
    assert!(skipped.to_string().contains("SKIPPED: 1 checks: backend oracle: not available here: a test"));
    let failed = report(Fault::Unavailable, &["cuda", "oracle"], "");
    assert_eq!((failed.passed.len(), failed.failed.len()), (0, 1));
    let options = Options { require: vec!["avx512".into()], ..Options::default() };
    assert!(options.requires("avx512") && options.requires("cpu-avx512") && !options.requires("cpu-avx5"));
}

#[test]
fn a_backend_that_takes_one_frame_at_a_time_conforms() {
    let report = report(Fault::OneFrameABatch, &[], "");
    report.assert();
    assert!(report.skipped.is_empty() && report.passed.len() > 100, "{report}");
}
