//! The library in a program of one's own: frames in memory to clusters and a spectrum.
//!
//!     cargo run --release --example embed

use scheidegg::{AUTO, ClusterSize, Frames, Params, Registry, Result, Shape};

fn main() -> Result<()> {
    // 100 dark frames and 200 frames with a photon of 900 ADU here and there, as a detector would give them.
    let shape = Shape::new(64, 64)?;
    let noise = |i: usize| 2000 + (i * 7919 % 41) as u16;
    let darks: Vec<u16> = (0..100 * shape.pixels()).map(noise).collect();
    let mut data: Vec<u16> = (0..200 * shape.pixels()).map(|i| noise(i * 3 + 1)).collect();
    for i in (500..data.len() - 1).step_by(997) {
        let share = (i % 10) as u16 * 90;
        data[i] += 900 - share;
        data[i + 1] += share;
    }

    let params = Params { pedestal_samples: 100, ..Params::new(ClusterSize::square(3)?) };
    let mut finder = Registry::standard().build(AUTO, shape, &params)?;
    finder.train(Frames::new(&darks, shape)?)?;

    let mut spectrum = [0u32; 24];
    finder.find(Frames::new(&data, shape)?, &mut |batch| {
        for (adu, _) in batch.iter().map(|cluster| cluster.max_sum_2x2()) {
            spectrum[(adu.max(0.0) as usize / 50).min(23)] += 1;
        }
        Ok(())
    })?;

    println!("{} clusters in {} frames", finder.statistics().clusters, finder.statistics().frames);
    for (bin, count) in spectrum.iter().enumerate() {
        println!("{:5} ADU {count:6} {}", bin * 50, "#".repeat(*count as usize / 10));
    }
    Ok(())
}
