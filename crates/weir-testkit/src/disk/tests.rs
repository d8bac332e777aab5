//! The disk against a simple model of what must and what may survive.

use std::collections::BTreeSet;

use weir_host::RealDisk;

use super::*;

const DIR: &str = "/data";

fn disk() -> FaultyDisk {
    let disk = FaultyDisk::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn create(disk: &FaultyDisk, name: &str) -> Box<dyn DiskFile> {
    disk.open(&path(name), OpenMode::CreateNew).unwrap()
}

fn write(file: &dyn DiskFile, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(&[IoSlice::new(bytes)], offset)
}

/// Returns the contents of a file over many outcomes of the same power cut.
fn outcomes(disk: &FaultyDisk, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..400).map(|seed| disk.crash(seed).content(&path(name))).collect()
}

#[test]
fn what_was_flushed_survives_every_power_cut() {
    let disk = disk();
    let file = create(&disk, "a");
    write(&*file, b"kept", 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(outcomes(&disk, "a"), BTreeSet::from([Some(b"kept".to_vec())]));
}

#[test]
fn a_flushed_file_without_a_flushed_name_may_be_gone() {
    let disk = disk();
    let file = create(&disk, "a");
    write(&*file, b"kept", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, "a"), BTreeSet::from([None, Some(b"kept".to_vec())]));
}

#[test]
fn writes_that_were_not_flushed_are_lost_kept_torn_and_reordered() {
    let disk = disk();
    let file = create(&disk, "a");
    disk.sync_dir(Path::new(DIR)).unwrap();
    write(&*file, &[1; 8192], 0).unwrap();
    write(&*file, &[2; 8192], 8192).unwrap();
    let seen: Vec<Vec<u8>> = outcomes(&disk, "a").into_iter().flatten().collect();
    let some = |test: &dyn Fn(&[u8]) -> bool| seen.iter().any(|bytes| test(bytes));
    assert!(some(&|b| b.is_empty()), "all lost");
    assert!(some(&|b| b.len() == 16384 && !b.contains(&0)), "all kept");
    assert!(some(&|b| b.len() == 16384 && b[0] == 0 && b[8192] == 2), "the later one only");
    assert!(some(&|b| b.len() == 512 || b.len() == 1024), "torn at a sector");
    assert!(some(&|b| b.len() >= 8192 && b[..4096] == [1; 4096] && b[4096..8192] == [0; 4096]));
    for bytes in &seen {
        assert!(bytes.iter().enumerate().all(|(i, b)| *b == 0 || *b == 1 + (i / 8192) as u8));
    }
}

#[test]
fn a_rename_that_was_not_flushed_shows_the_old_or_the_new_file_never_a_mix() {
    let disk = disk();
    for (name, bytes) in [("state", b"old"), ("state.tmp", b"new")] {
        let file = create(&disk, name);
        write(&*file, bytes, 0).unwrap();
        file.sync_data().unwrap();
    }
    disk.sync_dir(Path::new(DIR)).unwrap();
    disk.rename(&path("state.tmp"), &path("state")).unwrap();
    let seen = outcomes(&disk, "state");
    assert_eq!(seen, BTreeSet::from([Some(b"old".to_vec()), Some(b"new".to_vec())]));
    disk.faults().clear();
}

#[test]
fn a_kill_preserves_unflushed_writes_but_a_power_cut_may_not() {
    let disk = disk();
    let file = create(&disk, "a");
    disk.sync_dir(Path::new(DIR)).unwrap();
    write(&*file, b"x", 0).unwrap();
    assert!(file.try_lock().unwrap());
    let next = disk.kill();
    assert!(write(&*file, b"y", 0).is_err(), "the killed process cannot access the disk");
    assert_eq!(next.content(&path("a")), Some(b"x".to_vec()));
    let again = next.open(&path("a"), OpenMode::ReadWrite).unwrap();
    assert!(again.try_lock().unwrap(), "locks end with their process");
    assert!(outcomes(&next, "a").contains(&Some(Vec::new())));
}

#[test]
fn a_failed_flush_leaves_the_data_readable_but_in_doubt_for_ever() {
    let disk = disk();
    let file = create(&disk, "a");
    disk.sync_dir(Path::new(DIR)).unwrap();
    write(&*file, b"x", 0).unwrap();
    disk.inject(Fault::new(FaultKind::Io).on(CallKind::SyncData));
    assert!(file.sync_data().is_err());
    assert_eq!(disk.flushes_after_failure(), 0);
    file.sync_data().unwrap();
    assert_eq!(disk.flushes_after_failure(), 1);
    assert_eq!(disk.content(&path("a")), Some(b"x".to_vec()));
    assert!(outcomes(&disk, "a").contains(&Some(Vec::new())), "the second flush did not help");
}

#[test]
fn a_full_disk_takes_what_fits_and_a_punched_hole_makes_room() {
    let disk = disk();
    disk.set_capacity(Some(3 * 4096));
    let file = create(&disk, "a");
    assert_eq!(write(&*file, &[7; 4 * 4096], 0).unwrap(), 3 * 4096);
    let full = write(&*file, &[7; 100], 3 * 4096).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    assert_eq!(write(&*file, &[8; 100], 0).unwrap(), 100, "existing data can be overwritten");
    file.punch(0, 4096).unwrap();
    assert_eq!(disk.space(Path::new(DIR)).unwrap().free_bytes, 4096);
    assert_eq!(write(&*file, &[9; 100], 3 * 4096).unwrap(), 100);
    assert_eq!(file.len().unwrap(), 3 * 4096 + 100);
    let mut head = [1; 2];
    file.read_exact_at(&mut head, 0).unwrap();
    assert_eq!(head, [0; 2]);
}

#[test]
fn an_unlinked_open_file_takes_up_space_until_it_is_closed() {
    let disk = disk();
    let file = create(&disk, "a");
    write(&*file, &[1; 4096], 0).unwrap();
    disk.remove(&path("a")).unwrap();
    assert_eq!(disk.used_bytes(), 4096);
    drop(file);
    assert_eq!(disk.used_bytes(), 0);
}

#[test]
fn a_read_only_disk_reads_and_nothing_else() {
    let disk = disk();
    write(&*create(&disk, "a"), b"x", 0).unwrap();
    disk.set_read_only(true);
    assert!(disk.open(&path("a"), OpenMode::ReadWrite).is_err());
    let file = disk.open(&path("a"), OpenMode::Read).unwrap();
    file.read_exact_at(&mut [0], 0).unwrap();
    let refused = disk.remove(&path("a")).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn only_one_handle_holds_the_lock() {
    let disk = disk();
    let first = create(&disk, "lock");
    let second = disk.open(&path("lock"), OpenMode::Create).unwrap();
    assert!(first.try_lock().unwrap());
    assert!(!second.try_lock().unwrap());
    drop(first);
    assert!(second.try_lock().unwrap());
}

#[test]
fn a_crash_in_a_call_stops_the_machine_there() {
    let disk = disk();
    let file = create(&disk, "a");
    disk.sync_dir(Path::new(DIR)).unwrap();
    disk.inject(Fault::new(FaultKind::Crash).on(CallKind::SyncData));
    write(&*file, b"x", 0).unwrap();
    assert!(file.sync_data().is_err());
    assert!(disk.is_dead());
    assert!(disk.list(Path::new(DIR)).is_err());
    let seen = outcomes(&disk, "a");
    assert!(seen.contains(&Some(Vec::new())) && seen.contains(&Some(b"x".to_vec())));
}

#[test]
fn short_and_interrupted_writes_are_finished_by_write_all() {
    let memory = disk();
    let file = create(&memory, "a");
    memory.inject(Fault::new(FaultKind::Short(3)).on(CallKind::Write).times(2));
    memory.inject(Fault::new(FaultKind::Interrupted).on(CallKind::Write).nth(2));
    let (one, two) = (b"hello ".to_vec(), b"world".to_vec());
    file.write_all_at(&mut [IoSlice::new(&one), IoSlice::new(&two)], 0).unwrap();
    assert_eq!(memory.content(&path("a")).unwrap(), b"hello world");
    assert_eq!(memory.faults().fired(), 3);
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    let disk = disk();
    let file = create(&disk, "a");
    for i in 0..50 {
        write(&*file, &[i; 700], u64::from(i) * 700).unwrap();
    }
    for seed in 0..50 {
        assert_eq!(disk.crash(seed).content(&path("a")), disk.crash(seed).content(&path("a")));
    }
}

#[test]
fn calls_of_the_real_disk_can_be_failed_too() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FailingDisk::over(Arc::new(RealDisk));
    let file = disk.open(&dir.path().join("a"), OpenMode::CreateNew).unwrap();
    disk.faults().inject(Fault::new(FaultKind::Short(2)).on(CallKind::Write));
    disk.faults().inject(Fault::new(FaultKind::NoSpace).on(CallKind::SyncData));
    let bytes = b"abcdef".to_vec();
    file.write_all_at(&mut [IoSlice::new(&bytes)], 0).unwrap();
    assert_eq!(disk.faults().calls(CallKind::Write), 2);
    assert!(file.sync_data().is_err());
    assert_eq!(std::fs::read(dir.path().join("a")).unwrap(), bytes);
}
