#include "wmtp/storage/cut_mappings.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "support/temp_dir.h"
#include "wmtp/storage/mapped_file.h"

namespace wmtp::storage {
namespace {

namespace fs = std::filesystem;
using test::TempDir;
using test::write_file;

const std::string kThreePages(3 * 4096, 'x');

char last_byte_of(const MappedFile& file) {
  return static_cast<const volatile char&>(
      reinterpret_cast<const char&>(file.bytes()[file.size() - 1]));
}

// Each in a process of its own, since it ends that.
TEST(CutMappingsDeathTest, TheFileIsNamed) {
  TempDir folder;
  write_file(folder / "a", kThreePages);
  write_file(folder / "b", kThreePages);
  EXPECT_EXIT(
      {
        end_on_cut_mappings();
        const MappedFile other = MappedFile::open(folder / "a");
        const MappedFile moved = MappedFile::open(folder / "b");
        fs::resize_file(folder / "b", 4096);
        last_byte_of(moved);
      },
      testing::ExitedWithCode(74), "storage. .*/b was cut from 12288 to 4096 bytes");
}

TEST(CutMappingsDeathTest, OneThatIsGoneIsNamedToo) {
  TempDir folder;
  write_file(folder / "a", kThreePages);
  EXPECT_EXIT(
      {
        end_on_cut_mappings();
        const MappedFile file = MappedFile::open(folder / "a");
        fs::resize_file(folder / "a", 0);
        fs::remove(folder / "a");
        last_byte_of(file);
      },
      testing::ExitedWithCode(74), "/a was cut from 12288 to 0 bytes");
}

TEST(CutMappingsDeathTest, MappingsComeAndGo) {
  TempDir folder;
  write_file(folder / "a", kThreePages);
  write_file(folder / "b", kThreePages);
  EXPECT_EXIT(
      {
        end_on_cut_mappings();
        for (int round = 0; round < 100; ++round) {
          std::vector<MappedFile> files;
          for (int i = 0; i < 5; ++i) files.push_back(MappedFile::open(folder / "a"));
          files.erase(files.begin() + 1);
        }
        const MappedFile file = MappedFile::open(folder / "b");
        fs::resize_file(folder / "b", 0);
        last_byte_of(file);
      },
      testing::ExitedWithCode(74), "/b was cut");
}

void end_on_cut_mappings_else_by_default() {
  std::signal(SIGBUS, SIG_DFL);  // sanitizers have a handler of their own
  end_on_cut_mappings();
}

// A mapping that is not ours, at the very place where one of ours was.
TEST(CutMappingsDeathTest, OtherBusErrorsStayWhatTheyAre) {
  TempDir folder;
  write_file(folder / "a", kThreePages);
  EXPECT_EXIT(
      {
        end_on_cut_mappings_else_by_default();
        const void* place = nullptr;
        {
          const MappedFile ours = MappedFile::open(folder / "a");
          place = ours.bytes().data();
        }
        const UniqueFd file = open_regular(folder / "a");
        const auto* bytes = static_cast<const volatile char*>(
            ::mmap(const_cast<void*>(place), kThreePages.size(), PROT_READ, MAP_PRIVATE | MAP_FIXED,
                   file.get(), 0));
        fs::resize_file(folder / "a", 0);
        static_cast<void>(bytes[4096]);
      },
      testing::KilledBySignal(SIGBUS), "^$");
  EXPECT_EXIT(
      {
        end_on_cut_mappings_else_by_default();
        ::raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "^$");
}

}  // namespace
}  // namespace wmtp::storage
