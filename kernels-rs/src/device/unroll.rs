//! Loops written out, so that what they index stays in registers: the compiler for the GPU gives up on loops of
//! this size.

/// `each_pixel!(J { body })`: the body for `J` from 0 to 3, a constant in each.
macro_rules! each_pixel {
    ($j:ident $body:block) => {
        $crate::device::unroll::each!($j $body 0 1 2 3)
    };
}

/// `each_row!(I { body })`: the body for `I` from 0 to 11, a constant in each.
macro_rules! each_row {
    ($i:ident $body:block) => {
        $crate::device::unroll::each!($i $body 0 1 2 3 4 5 6 7 8 9 10 11)
    };
}

macro_rules! each {
    ($i:ident $body:block $($n:literal)+) => { $({ #[allow(unused)] const $i: usize = $n; $body })+ };
}

pub(crate) use {each, each_pixel, each_row};
