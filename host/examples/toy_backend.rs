//! A stranger's backend: the rule of SPEC 3 for one pixel, registered at run time. `tests/tests/toy.rs` proves it right.
//!
//!     cargo run --release -p scheidegg --example toy_backend

use scheidegg::{
    Backend, Branch, Corrected, Decision, Error, Finder, Frames, Judge, Params, Real, Registry, Result,
    Shape, Ties, judged,
};

/// Backend and rule in one.
pub struct Toy;

impl Backend for Toy {
    fn name(&self) -> &str {
        "toy"
    }
    fn summary(&self) -> &str {
        "an example: frozen pedestals on the CPU, pixel after pixel"
    }
    fn build(&self, shape: Shape, params: &Params) -> Result<Box<dyn Finder>> {
        if params.test2 || params.ties != Ties::All {
            let what = "test 2 and the first of ties (the backend oracle does)".into();
            return Err(Error::Unsupported { backend: "toy".into(), what });
        }
        judged("toy", Toy, shape, params)
    }
}

impl Judge for Toy {
    fn branch<C: Real>(&self, frame: &Corrected<'_, C>, i: usize) -> Branch {
        let (p, d) = (frame.params, frame.d[i]);
        let rule = Decision::new(p.size.w as u32, p.size.h as u32, p.n_sigma, p.noise_floor_adu);
        let window: Vec<C> = frame.window(i).collect();
        let sum = |values: &[C]| values.iter().fold(C::ZERO, |a, b| a + *b);
        let rows: Vec<C> = window.chunks(p.size.w).map(sum).collect();
        let max = window.iter().fold(d, |a, b| a.larger(*b));
        rule.branch(d, rule.n_sigma2 * frame.variance[i], max, sum(&rows), None, d >= max)
    }
}

fn main() -> Result<()> {
    let shape = Shape::new(20, 30)?;
    let frames =
        |n: usize| (0..n * shape.pixels()).map(|i| 1000 + (i * 7919 % 23) as u16).collect::<Vec<_>>();
    let (darks, mut data) = (frames(100), frames(3));
    data[shape.pixels() + 10 * shape.cols + 12] += 500;

    let mut registry = Registry::standard();
    registry.register(Box::new(Toy));
    let params = Params { pedestal_samples: 100, ..Params::new("3".parse()?) };
    let mut finder = registry.build("toy", shape, &params)?;
    finder.train(Frames::new(&darks, shape)?)?;
    finder.find(Frames::new(&data, shape)?, &mut |batch| {
        batch.iter().for_each(|c| println!("x {}, y {}: {} ADU", c.x, c.y, c.sum()));
        Ok(())
    })
}
