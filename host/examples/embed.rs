//! The library in a program of one's own: frames in memory to clusters and a spectrum.
//!
//!     cargo run --release -p scheidegg --example embed

use scheidegg::{AUTO, ClusterSize, Frames, Params, Registry, Result, Shape};

fn main() -> Result<()> {
    // Frames as a detector would give them; every 500th pixel of the data gets 720 ADU, shared with its neighbour.
    let shape = Shape::new(64, 64)?;
    let noise = |i: usize| 2000 + (i * 7919 % 41) as u16;
    let photon = |i: usize| if i % 500 < 2 { 360 } else { 0 };
    let darks: Vec<u16> = (0..100 * shape.pixels()).map(noise).collect();
    let data: Vec<u16> = (0..200 * shape.pixels()).map(|i| noise(3 * i) + photon(i)).collect();

    let params = Params { pedestal_samples: 100, ..Params::new(ClusterSize::square(3)?) };
    let mut finder = Registry::standard().build(AUTO, shape, &params)?;
    finder.train(Frames::new(&darks, shape)?)?;
    let mut spectrum = [0; 20];
    finder.find(Frames::new(&data, shape)?, &mut |batch| {
        batch.iter().for_each(|cluster| spectrum[(cluster.max_sum_2x2().0 / 50.0).min(19.0) as usize] += 1);
        Ok(())
    })?;

    println!("{} clusters in {} frames", finder.statistics().clusters, finder.statistics().frames);
    for (bin, clusters) in spectrum.iter().enumerate() {
        println!("{:4} ADU {clusters:5} {}", bin * 50, "#".repeat(clusters / 20));
    }
    Ok(())
}
