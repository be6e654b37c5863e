//! The training of a pedestal as a state machine, for backends.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::frames::{Frames, Shape};
use crate::mask::PixelMask;
use crate::params::{Noise, Params};
use crate::pedestal::{Pedestal, Trainer};

/// Takes dark frames until the pedestal's window is full, then updates it with those that follow.
#[derive(Clone, Debug)]
pub struct Training {
    shape: Shape,
    params: Params,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Counting(Trainer),
    Trained(Pedestal),
}

impl Training {
    /// No dark frame yet.
    ///
    /// # Errors
    /// What [`Params::validate`] says.
    pub fn new(shape: Shape, params: &Params) -> Result<Self> {
        params.validate(shape)?;
        Ok(Training { shape, params: params.clone(), stage: Stage::Counting(Trainer::new(shape)) })
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Rows and columns.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Takes dark frames.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`].
    pub fn train(&mut self, darks: Frames<'_>) -> Result<()> {
        Error::check_shape("dark frames", self.shape, darks.shape())?;
        let mut rest = darks;
        if let Stage::Counting(trainer) = &mut self.stage {
            let missing = self.params.pedestal_samples - trainer.frames();
            let take = darks.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
            trainer.add(darks.slice(0, take))?;
            if trainer.frames() < self.params.pedestal_samples {
                return Ok(());
            }
            self.finish()?;
            rest = darks.slice(take, darks.len() - take);
        }
        let Stage::Trained(pedestal) = &mut self.stage else { return Ok(()) };
        pedestal.update(rest)
    }

    /// Ends training with the frames seen, or does nothing when it has ended.
    ///
    /// # Errors
    /// [`Error::PedestalNotReady`] with fewer than 2 dark frames.
    pub fn finish(&mut self) -> Result<()> {
        if let Stage::Counting(trainer) = &self.stage {
            self.stage = Stage::Trained(self.ready(trainer.finish(self.params.precision)?));
        }
        Ok(())
    }

    /// Whether training has ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.stage, Stage::Trained(_))
    }

    /// The trained pedestal. It has a fixed variance when the parameters ask for fixed noise.
    ///
    /// # Errors
    /// [`Error::PedestalNotReady`] before training has ended.
    pub fn pedestal(&self) -> Result<Cow<'_, Pedestal>> {
        match &self.stage {
            Stage::Trained(p) => Ok(Cow::Borrowed(p)),
            Stage::Counting(t) => {
                Err(Error::PedestalNotReady { have: t.frames(), need: self.params.pedestal_samples })
            }
        }
    }

    /// Replaces the pedestal; training counts as ended.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], or [`Error::Param`] when its precision is not that of the parameters.
    pub fn set_pedestal(&mut self, pedestal: &Pedestal) -> Result<()> {
        Error::check_shape("pedestal", self.shape, pedestal.shape)?;
        pedestal.validate()?;
        let want = self.params.precision;
        let is_f64 = pedestal.sum.is_f64();
        if is_f64 != want.pedestal_is_f64() {
            let found = if is_f64 { "f64 sums" } else { "f32 sums" };
            return Err(Error::param("pedestal precision", found, format!("the sums of precision {want}")));
        }
        self.stage = Stage::Trained(self.ready(pedestal.clone()));
        Ok(())
    }

    /// Fixed noise is that of the moment when training ends, whatever dark frames still follow
    /// ([SPEC 4](crate::spec#4-modes)).
    fn ready(&self, mut pedestal: Pedestal) -> Pedestal {
        if self.params.noise == Noise::Fixed && pedestal.fixed_variance.is_none() {
            pedestal.refresh_noise();
        }
        pedestal
    }

    /// The pixels that never take part in this run: those of [`Params::mask`] and those that no dark frame
    /// trained.
    ///
    /// # Errors
    /// [`Error::PedestalNotReady`] before training has ended.
    pub fn mask(&self) -> Result<Option<PixelMask>> {
        let untrained = self.pedestal()?.untrained.clone();
        Ok(match (self.params.mask.as_deref(), untrained) {
            (None, other) => other,
            (Some(mask), None) => Some(mask.clone()),
            (Some(mask), Some(mut all)) => {
                all.union(mask);
                Some(all)
            }
        })
    }
}
