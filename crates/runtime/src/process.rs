//! The process itself, as every exporter tells of it: what Linux knows under `/proc/self`.

use std::fmt::Write as _;

/// Kernel clock ticks in a second, everywhere Linux runs.
const TICKS: f64 = 100.0;

/// `process_*` in the text format; what cannot be read is left out.
pub(crate) fn render(out: &mut String) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{name}")).ok();
    let Some(stat) = read("self/stat") else { return };
    let Some(usage) = usage(&stat) else { return };
    let page = page_size(read("self/smaps_rollup").as_deref());
    let mut put = |name: &str, kind: &str, help: &str, value: f64| {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    };
    put("process_cpu_seconds_total", "counter", "User and system time.", usage.cpu_seconds);
    put("process_virtual_memory_bytes", "gauge", "Virtual memory.", usage.virtual_bytes);
    put("process_resident_memory_bytes", "gauge", "Resident memory.", usage.resident_pages * page);
    if let Some(boot) = read("stat").and_then(|text| boot_time(&text)) {
        put("process_start_time_seconds", "gauge", "Start since the epoch.", boot + usage.start_seconds);
    }
    if let Some(open) = std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count) {
        put("process_open_fds", "gauge", "Open file descriptors.", open as f64);
    }
    if let Some(most) = read("self/limits").and_then(|text| most_files(&text)) {
        put("process_max_fds", "gauge", "Most open file descriptors.", most);
    }
    put("process_threads", "gauge", "Threads.", usage.threads);
}

#[derive(Debug, PartialEq)]
struct Usage {
    cpu_seconds: f64,
    threads: f64,
    start_seconds: f64,
    virtual_bytes: f64,
    resident_pages: f64,
}

/// The fields after the name, which may hold anything, its closing parenthesis included.
fn usage(stat: &str) -> Option<Usage> {
    let fields: Vec<f64> = stat.rsplit_once(')')?.1.split_whitespace().map(|f| f.parse().unwrap_or(0.0)).collect();
    // The manual counts from one, and the name is the second.
    let field = |number: usize| fields.get(number - 3).copied();
    Some(Usage {
        cpu_seconds: (field(14)? + field(15)?) / TICKS,
        threads: field(20)?,
        start_seconds: field(22)? / TICKS,
        virtual_bytes: field(23)?,
        resident_pages: field(24)?,
    })
}

/// Four kibibytes but on some ARM machines, where mappings begin at multiples of more.
fn page_size(rollup: Option<&str>) -> f64 {
    let header = rollup.and_then(|text| text.lines().next()).and_then(|line| line.split('-').next());
    let start = header.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0x1000);
    if cfg!(target_arch = "aarch64") && start.trailing_zeros() >= 16 { 65_536.0 } else { 4_096.0 }
}

fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

fn most_files(limits: &str) -> Option<f64> {
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 13 14 15 16 7 18 1000 4096000 100 22";
        let want = Usage {
            cpu_seconds: 2.0,
            threads: 7.0,
            start_seconds: 10.0,
            virtual_bytes: 4_096_000.0,
            resident_pages: 100.0,
        };
        assert_eq!(usage(stat), Some(want));
        assert_eq!(boot_time("cpu 1\nbtime 1700000000\n"), Some(1_700_000_000.0));
        assert_eq!(
            most_files(
                "Max processes 1 1 x\nMax open files            1024                 4096                 files\n"
            ),
            Some(1024.0)
        );
        assert_eq!(usage("nonsense"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_told_of() {
        let mut page = String::new();
        render(&mut page);
        for name in [
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_start_time_seconds",
            "process_open_fds",
            "process_max_fds",
        ] {
            let line = page.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
            assert!(line.split(' ').nth(1).unwrap().parse::<f64>().unwrap() >= 0.0, "{line}");
        }
    }
}
