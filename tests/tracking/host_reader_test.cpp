// The numbers of the host: the kernel's tables as texts, whole, odd and hostile, and a reading of
// this machine.
#include "wmtp/tracking/system/host_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <thread>

#include "support/temp_dir.h"

namespace wmtp::tracking {
namespace {

using test::TempDir;
using test::write_file;

constexpr const char* kStat =
    "cpu  100 10 50 800 20 5 5 10 30 2\n"
    "cpu0 60 10 20 400 5 1 2 2 30 2\n"
    "cpu1 10 0 10 100 5 1 1 1 0 0\n"
    "cpu10 30 0 20 300 10 3 2 7 0 0\n"
    "intr 1 2 3\nctxt 5\n";

TEST(CpuTimesOfStat, TheSumOverTheCoresOfThisProcess) {
  const auto times = parse_cpu_times(kStat, std::array{1, 10});
  ASSERT_TRUE(times);
  EXPECT_EQ(times->total, 128 + 372);  // guests are counted in user
  EXPECT_EQ(times->busy, 23 + 62);
}

TEST(CpuTimesOfStat, AllCoresWhereOneIsNotListed) {
  for (const std::vector<int>& cores : {std::vector<int>{}, std::vector<int>{0, 2}}) {
    const auto times = parse_cpu_times(kStat, cores);
    ASSERT_TRUE(times);
    EXPECT_EQ(times->total, 1000);
    EXPECT_EQ(times->busy, 180);
  }
}

TEST(CpuTimesOfStat, NothingFromTextsThatAreNoTable) {
  for (const char* text : {"", "\n\n", "cpu", "cpu 1 2 3", "cpu -1 2 3 4 5 6 7 8",
                           "cpu 1 2 3 4 5 6 7 99999999999999999999999", "cpux 1 2 3 4 5 6 7 8",
                           "cpu 1 2 3 4 5 6 7 8x", "CPU 1 2 3 4 5 6 7 8"})
    EXPECT_FALSE(parse_cpu_times(text, std::array{0})) << text;
  const auto largest =
      parse_cpu_times("cpu 18446744073709551615 18446744073709551615 0 0 0 0 0 0", std::array{0});
  ASSERT_TRUE(largest);
  EXPECT_EQ(largest->total, 0x1p65);  // no overflow
}

TEST(NetworkOfNetDev, AllInterfacesButLo) {
  const auto bytes = parse_network(
      "Inter-|   Receive                            |  Transmit\n"
      " face |bytes    packets errs drop fifo frame |bytes    packets errs\n"
      "    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n"
      "  eth0: 1000 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\n"
      "eth0:1:7 1 0 0 0 0 0 0 3 1 0 0 0 0 0 0\n"
      "lolo:500 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0");
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->received, 1507);
  EXPECT_EQ(bytes->sent, 123);
}

TEST(NetworkOfNetDev, NothingWithoutAnInterfaceAndBrokenLinesAreLeftOut) {
  EXPECT_FALSE(parse_network(""));
  EXPECT_FALSE(parse_network("lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n"));
  EXPECT_FALSE(parse_network("eth0: 1 2 3\neth1: a b c d e f g h i\n:\n::::\n"));
  const auto bytes = parse_network("eth0: 1 2 3\neth1: 4 0 0 0 0 0 0 0 5\n");
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->received, 4);
  EXPECT_EQ(bytes->sent, 5);
}

TEST(TableOfProc, TheNumberAfterANameAtTheBeginningOfALine) {
  const char* text =
      "Mem Total: 1\nMemTotal:   24682416 kB\nMemTotal: 2\nBad: -5\nWord: x\nEmpty:\n";
  EXPECT_EQ(number_in_table(text, "MemTotal:"), 24682416);
  for (const char* name : {"Bad:", "Word:", "Empty:", "Total:", "kB", "None:"})
    EXPECT_FALSE(number_in_table(text, name)) << name;
  EXPECT_FALSE(number_in_table("", "MemTotal:"));
}

TEST(RisingCounts, WhatAnInterfaceHadCountedStays) {
  RisingCount count;
  EXPECT_EQ(count.add(1000), 0);
  EXPECT_EQ(count.add(1500), 500);
  EXPECT_EQ(count.add(100), 500);  // it began anew
  EXPECT_EQ(count.add(150), 550);
}

// A machine as files, so that its numbers are known.
struct FakeMachine {
  TempDir folder;
  HostFolders folders;

  FakeMachine() {
    folders = {folder.path(), folder / "proc", (folder / "cgroup").string()};
    std::filesystem::create_directories(folder / "proc/self/net");
    std::filesystem::create_directories(folder / "cgroup/job/step");
    write_file(folder / "proc/meminfo", "MemTotal: 2000000 kB\nMemAvailable: 500000 kB\n");
  }
  SystemReading read() const {
    SystemReading reading;
    HostReader(folders).read(reading);
    return reading;
  }
};

TEST(HostReaderOfFiles, MemoryOfTheMachineWithoutACgroup) {
  const FakeMachine machine;
  const SystemReading reading = machine.read();
  EXPECT_DOUBLE_EQ(reading[SystemValue::memory_mb], 1536);
  EXPECT_DOUBLE_EQ(reading[SystemValue::memory_percent], 75);
  EXPECT_TRUE(is_absent(reading[SystemValue::process_memory_mb]));
  EXPECT_TRUE(is_absent(reading[SystemValue::network_received_mb]));
  EXPECT_TRUE(is_absent(reading[SystemValue::process_read_mb]));
}

TEST(HostReaderOfFiles, MemoryOfTheGroupWithTheLeast) {
  const FakeMachine machine;
  write_file(machine.folder / "proc/self/cgroup", "0::/job/step\n");
  write_file(machine.folder / "cgroup/job/memory.max", "1000000000\n");
  write_file(machine.folder / "cgroup/job/memory.current", "700000000\n");
  write_file(machine.folder / "cgroup/job/memory.stat", "anon 5\ninactive_file 100000000\n");
  write_file(machine.folder / "cgroup/job/step/memory.max", "max\n");
  write_file(machine.folder / "cgroup/job/step/memory.current", "1\n");
  EXPECT_DOUBLE_EQ(machine.read()[SystemValue::memory_mb], 600);
  EXPECT_DOUBLE_EQ(machine.read()[SystemValue::memory_percent], 60);
  write_file(machine.folder / "cgroup/job/step/memory.max", "500\n");
  EXPECT_DOUBLE_EQ(machine.read()[SystemValue::memory_percent], 0.2);
}

TEST(HostReaderOfFiles, TheFirstVersionOfCgroupsAndItsLimitThatIsNone) {
  const FakeMachine machine;
  std::filesystem::create_directories(machine.folder / "cgroup/memory/job");
  write_file(machine.folder / "proc/self/cgroup", "4:memory:/job\n0::/\n");
  write_file(machine.folder / "cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write_file(machine.folder / "cgroup/memory/memory.usage_in_bytes", "5\n");
  EXPECT_DOUBLE_EQ(machine.read()[SystemValue::memory_percent], 75);
  write_file(machine.folder / "cgroup/memory/job/memory.limit_in_bytes", "1000000000\n");
  write_file(machine.folder / "cgroup/memory/job/memory.usage_in_bytes", "300000000\n");
  write_file(machine.folder / "cgroup/memory/job/memory.stat", "total_inactive_file 400000000\n");
  EXPECT_DOUBLE_EQ(machine.read()[SystemValue::memory_percent], 0);  // never below none
}

TEST(HostReaderOfFiles, TrafficSinceTheReaderWasMade) {
  const FakeMachine machine;
  write_file(machine.folder / "proc/self/net/dev", "eth0: 5000000 0 0 0 0 0 0 0 1000000\n");
  write_file(machine.folder / "proc/self/io", "read_bytes: 3000000\nwrite_bytes: 4000000\n");
  HostReader reader(machine.folders);
  write_file(machine.folder / "proc/self/net/dev", "eth0: 7500000 0 0 0 0 0 0 0 1000000\n");
  SystemReading reading;
  reader.read(reading);
  EXPECT_DOUBLE_EQ(reading[SystemValue::network_received_mb], 2.5);
  EXPECT_DOUBLE_EQ(reading[SystemValue::network_sent_mb], 0);
  EXPECT_DOUBLE_EQ(reading[SystemValue::process_read_mb], 3);
  EXPECT_DOUBLE_EQ(reading[SystemValue::process_written_mb], 4);
}

TEST(HostReaderOfFiles, AMachineThatTellsNothing) {
  HostReader reader({"/no/such/folder", "/no/such/proc", "/no/such/cgroup"});
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  SystemReading reading;
  reader.read(reading);
  for (std::size_t k = 0; k < kNumSystemValues; ++k) {
    const auto value = static_cast<SystemValue>(k);
    EXPECT_EQ(is_absent(reading[value]), value != SystemValue::process_cpu_percent)
        << system_metric(value);
  }
}

TEST(HostReader, OfThisMachineWithACoreAtWork) {
  TempDir folder;
  HostReader reader({.run = folder.path()});
  const Clock::time_point start = Clock::now();
  volatile double work = 0;
  while (seconds_since(start) < 0.25) work = work + 1;
  SystemReading reading;
  reader.read(reading);
  for (std::size_t k = 0; k < kFirstGpuValue; ++k) {
    const auto value = static_cast<SystemValue>(k);
    if (value == SystemValue::network_received_mb || value == SystemValue::network_sent_mb ||
        value == SystemValue::process_read_mb || value == SystemValue::process_written_mb)
      continue;  // not every machine has a network, or lets a process see its traffic
    EXPECT_GE(reading[value], 0) << system_metric(value);
  }
  EXPECT_GT(reading[SystemValue::process_cpu_percent], 0);
  EXPECT_LE(reading[SystemValue::process_cpu_percent], 100);
  EXPECT_GT(reading[SystemValue::cpu_percent], 0);
  EXPECT_LE(reading[SystemValue::cpu_percent], 100);
  const auto space = std::filesystem::space(folder.path());
  EXPECT_NEAR(reading[SystemValue::disk_available_mb], static_cast<double>(space.available) / 1e6,
              1000);
  EXPECT_GT(reading[SystemValue::process_memory_mb], 1);
  EXPECT_TRUE(is_absent(reading[SystemValue::gpu_percent]));
}

}  // namespace
}  // namespace wmtp::tracking
