//! Names that nearly are those of a run.

use std::path::{Path, PathBuf};

use super::names::{data_file_name, master_name, masters_of};

#[test]
fn every_part_of_a_name_is_a_number_where_it_must_be() {
    for not in [
        "a_d0_f_0.raw",
        "a_d0_f0_.raw",
        "a_dx_f0_0.raw",
        "a_d0_fx_0.raw",
        "a_d_f0_0.raw",
        "a_d0_f99999999999999999999_0.raw",
    ] {
        assert_eq!(data_file_name(not), None, "{not}");
    }
    for not in ["a_b.json", "a_master_.json", "a_master_7b.json", "_master", "a_master_7_8.raw"] {
        assert_eq!(master_name(Path::new(not)), None, "{not}");
    }
    assert_eq!(master_name(Path::new("_master_0.raw")), Some(("".into(), "0".into())));
}

#[test]
fn master_files_stand_beside_their_data() {
    let n = data_file_name("scan_d1_x_d12_f3_42.raw").unwrap();
    let beside = masters_of(Path::new("/x/scan_d1_x_d12_f3_42.raw"), &n);
    assert_eq!(beside, ["json", "raw"].map(|e| PathBuf::from(format!("/x/scan_d1_x_master_42.{e}"))));
}
