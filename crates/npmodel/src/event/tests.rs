//! Cases that can be computed by hand.

use super::*;

/// A memory whose commands take `latency` cycles and come at least `command` cycles apart.
fn memory(latency: u64, command: u64) -> Timing {
    Timing { latency: latency * CYCLE, command: command * CYCLE, byte: 0, duplex: false }
}

fn hardware(memories: &[Timing], stages: &[(usize, usize)]) -> Hardware {
    let stages = stages.iter().map(|&(engines, threads)| Stage { engines, threads }).collect();
    Hardware { memories: memories.to_vec(), stages, swap: 0, ring: 16, offered: None }
}

fn read(cycles: u32) -> Step {
    Step { cycles, access: Some(Access { memory: 0, direction: Direction::Read, bytes: 8, wait: true }) }
}

fn write(cycles: u32) -> Step {
    Step { cycles, access: Some(Access { memory: 0, direction: Direction::Write, bytes: 8, wait: false }) }
}

fn only(cycles: u32) -> Step {
    Step { cycles, access: None }
}

/// One packet after the other with the same tasks.
fn all_alike(hardware: &Hardware, tasks: &[&[Step]], packets: u64) -> Outcome {
    let tasks = tasks.iter().map(|task| task.to_vec()).collect();
    run(hardware, &[Job { tasks, bits: 512 }], &[0], packets)
}

/// Cycles from packet to packet.
fn interval(outcome: &Outcome) -> f64 {
    outcome.time as f64 / CYCLE as f64 / outcome.packets as f64
}

#[track_caller]
fn near(found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < 0.01, "{found}, not {wanted}");
}

#[test]
fn one_thread_is_bound_by_latency() {
    let outcome = all_alike(&hardware(&[memory(100, 1)], &[(1, 1)]), &[&[read(10), only(5)]], 100);
    // 10 + 100 + 5 cycles each; from the 10th packet taken to the 100th.
    assert_eq!((outcome.packets, outcome.time), (90, 90 * 115 * CYCLE));
    assert_eq!(outcome.stages[0].busy, 90 * 15 * CYCLE);
    assert_eq!(outcome.stages[0].waiting, [90 * 100 * CYCLE]);
    assert_eq!((outcome.memories[0].accesses, outcome.memories[0].bytes), (90, 720));
    assert_eq!(outcome.memories[0].busy(), 90 * CYCLE);
    assert_eq!((outcome.stages[0].idle, outcome.stages[0].blocked, outcome.lost), (0, 0, 0));
}

/// Packets in the machine = rate × time that each spends there (Little, 1961), where neither engine nor memory is full.
#[test]
fn littles_law() {
    for threads in 1..=8 {
        let outcome = all_alike(&hardware(&[memory(90, 1)], &[(1, threads)]), &[&[read(6), only(4)]], 2000);
        near(interval(&outcome), 100.0 / threads as f64);
        near(outcome.stages[0].busy as f64 / outcome.time as f64, 0.1 * threads as f64);
    }
}

#[test]
fn many_threads_are_bound_by_the_engine() {
    let mut machine = hardware(&[memory(100, 1)], &[(1, 8)]);
    near(interval(&all_alike(&machine, &[&[read(30), only(20)]], 2000)), 50.0);
    // Each packet is begun and gone on with after a switch.
    machine.swap = 3;
    near(interval(&all_alike(&machine, &[&[read(30), only(20)]], 2000)), 56.0);
    let engines = hardware(&[memory(100, 1)], &[(4, 8)]);
    near(interval(&all_alike(&engines, &[&[read(30), only(20)]], 4000)), 12.5);
}

#[test]
fn many_threads_are_bound_by_commands_or_bytes() {
    for (engines, threads) in [(1, 8), (4, 8), (8, 4)] {
        let outcome =
            all_alike(&hardware(&[memory(100, 30)], &[(engines, threads)]), &[&[read(1), read(1), only(1)]], 4000);
        near(interval(&outcome), 60.0);
        near(outcome.memories[0].busy() as f64, outcome.time as f64);
        assert!(outcome.stages[0].waiting[0] > outcome.stages[0].busy);
    }
    let bytes = Timing { latency: 100 * CYCLE, command: CYCLE, byte: CYCLE / 4, duplex: false };
    let long =
        Step { cycles: 1, access: Some(Access { memory: 0, direction: Direction::Read, bytes: 256, wait: true }) };
    near(interval(&all_alike(&hardware(&[bytes], &[(1, 8)]), &[&[long, only(1)]], 2000)), 64.0);
}

/// Reading and writing at once, where each has a port; what does both occupies both.
#[test]
fn ports_of_their_own() {
    let step = |direction, wait| Step { cycles: 1, access: Some(Access { memory: 0, direction, bytes: 40, wait }) };
    let (read, write, both) = (step(Direction::Read, true), step(Direction::Write, false), step(Direction::Both, true));
    let rate = |duplex, task: &[Step]| {
        let timing = Timing { latency: 100 * CYCLE, command: CYCLE, byte: CYCLE, duplex };
        let outcome = all_alike(&hardware(&[timing], &[(4, 8)]), &[task], 4000);
        near(outcome.memories[0].busy() as f64, outcome.time as f64);
        interval(&outcome)
    };
    near(rate(false, &[read, write, only(1)]), 80.0);
    near(rate(true, &[read, write, only(1)]), 40.0);
    near(rate(true, &[read, write, write, only(1)]), 80.0);
    near(rate(true, &[both, only(1)]), 40.0);
    near(rate(true, &[both, read, only(1)]), 80.0);
}

#[test]
fn a_write_is_not_waited_for() {
    let machine = hardware(&[memory(1000, 5)], &[(1, 1)]);
    near(interval(&all_alike(&machine, &[&[write(10), write(10), only(5)]], 1000)), 25.0);
}

/// The slower stage sets the rate, and what is in front of it stands still when the ring is full.
#[test]
fn a_pipeline_is_as_fast_as_its_slowest_stage() {
    let machine = hardware(&[memory(1, 1)], &[(1, 1), (1, 1)]);
    let outcome = all_alike(&machine, &[&[only(10)], &[only(40)]], 1000);
    near(interval(&outcome), 40.0);
    near(outcome.stages[0].blocked as f64 / outcome.time as f64, 0.75);
    near(outcome.stages[1].busy as f64, outcome.time as f64);
    let outcome = all_alike(&machine, &[&[only(40)], &[only(10)]], 1000);
    near(interval(&outcome), 40.0);
    near(outcome.stages[1].idle as f64 / outcome.time as f64, 0.75);
    // Four engines behind one.
    let wide = hardware(&[memory(1, 1)], &[(1, 1), (4, 1)]);
    near(interval(&all_alike(&wide, &[&[only(10)], &[only(40)]], 1000)), 10.0);
}

#[test]
fn a_stage_without_work_is_passed_over() {
    let machine = hardware(&[memory(1, 1)], &[(1, 1), (1, 1), (1, 1)]);
    let jobs = [
        Job { tasks: vec![vec![only(10)], vec![], vec![only(20)]], bits: 512 },
        Job { tasks: vec![vec![only(10)], vec![], vec![]], bits: 512 },
    ];
    let outcome = run(&machine, &jobs, &[0, 1], 1000);
    near(interval(&outcome), 10.0);
    assert_eq!(outcome.stages[1].busy, 0);
}

#[test]
fn packets_that_are_offered() {
    let mut machine = hardware(&[memory(90, 1)], &[(1, 2)]);
    // 512 bits each 200 cycles, where 50 would do; then each 25.
    machine.offered = Some(512.0 / 200.0);
    let slow = all_alike(&machine, &[&[read(6), only(4)]], 1000);
    assert_eq!(slow.lost, 0);
    near(interval(&slow), 200.0);
    near(slow.rate(), 512.0 / 200.0);
    assert!(slow.stages[0].idle > slow.stages[0].busy);
    machine.offered = Some(512.0 / 25.0);
    let fast = all_alike(&machine, &[&[read(6), only(4)]], 10_000);
    near(interval(&fast), 50.0);
    near(fast.lost as f64, fast.packets as f64);
}

#[test]
fn each_run_gives_the_same() {
    let machine = hardware(&[memory(97, 13), memory(31, 7)], &[(1, 8), (3, 8), (2, 8)]);
    let other =
        |cycles, wait| Step { cycles, access: Some(Access { memory: 1, direction: Direction::Both, bytes: 4, wait }) };
    let jobs = [
        Job { tasks: vec![vec![read(5), only(1)], vec![read(31), other(7, true), only(3)], vec![only(9)]], bits: 512 },
        Job {
            tasks: vec![vec![read(5), only(1)], vec![other(11, false), read(3), write(2)], vec![read(4), only(1)]],
            bits: 1024,
        },
    ];
    let packets = [0, 1, 1, 0, 1, 0, 0, 0, 1];
    assert_eq!(run(&machine, &jobs, &packets, 5000), run(&machine, &jobs, &packets, 5000));
    assert_eq!(run(&machine, &jobs, &[], 5000), run(&machine, &jobs, &packets, 0));
}
