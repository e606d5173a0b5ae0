// Every kind of damage to a checkpoint's bytes is found and named; a whole one never is.
#include <gtest/gtest.h>

#include <set>

#include "checkpoint/tiny_state.h"
#include "support/crash_store.h"
#include "support/soak.h"
#include "support/temp_dir.h"
#include "wmtp/core/failpoint.h"

namespace wmtp::checkpoint {
namespace {

using test::CrashStore;

const std::string kFolder = "/s/tiny-3steps";

class DamageSuite : public testing::Test {
 protected:
  DamageSuite() { save(3); }
  void save(int world_size) {
    if (store.status("/s").kind == storage::FileKind::missing) store.create_folder("/s");
    storage::remove_tree(store, kFolder);
    tiny::expect_saved(store, "/s", 3, world_size);
    paths = {std::string(kManifestFile)};
    const CheckpointReader reader(store, kFolder);
    for (const FileRecord& file : reader.manifest().files) paths.push_back(file.path);
  }
  std::string& bytes(const std::string& path) { return store.bytes(kFolder + "/" + path); }
  // What resume checks: manifest, sizes, headers, all boxes.
  std::vector<Damage> found() const { return find_damage(store, kFolder, Verify::read); }

  std::size_t flip_bits(std::size_t wanted) {
    std::size_t num_bits = 0, num_done = 0, at = 0;
    for (const std::string& path : paths) num_bits += bytes(path).size() * 8;
    const std::size_t num_flips = std::min(wanted, num_bits);
    for (const std::string& path : paths)
      for (std::size_t bit = 0; bit < bytes(path).size() * 8; ++bit, ++at) {
        if ((at + 1) * num_flips / num_bits == at * num_flips / num_bits) continue;  // spread
        flip_one(path, bit);
        if (HasFatalFailure()) return num_done;
        ++num_done;
      }
    std::printf("%zu of %zu bits flipped, all found\n", num_done, num_bits);
    return num_done;
  }

  void flip_one(const std::string& path, std::size_t bit) {
    char& byte = bytes(path)[bit / 8];
    byte = static_cast<char>(byte ^ (1 << bit % 8));
    const auto damage = found();
    ASSERT_EQ(damage.size(), 1u) << path << " bit " << bit;
    ASSERT_EQ(damage[0].file, path) << "bit " << bit;
    ASSERT_LE(damage[0].begin, bit / 8) << path;
    ASSERT_GT(damage[0].end, bit / 8) << path;
    byte = static_cast<char>(byte ^ (1 << bit % 8));
  }

  CrashStore store;
  std::vector<std::string> paths;
};

TEST_F(DamageSuite, EverySampledBitFlipIsFoundAndNamed) {
  EXPECT_EQ(flip_bits(50'000), 50'000u);
  EXPECT_TRUE(found().empty());
}

TEST_F(DamageSuite, EveryBitOfEveryLayoutIsFoundInTheLongTier) {
  if (test::soak_factor() == 1) GTEST_SKIP() << "WMTP_SOAK is not set";
  std::size_t num_flips = 0;
  for (int world_size = 1; world_size <= 8; ++world_size) {
    save(world_size);
    num_flips += flip_bits(SIZE_MAX);
  }
  EXPECT_GE(num_flips, 500'000u);
  std::printf("G5: %zu flipped bits, every one found and named\n", num_flips);
}

TEST_F(DamageSuite, EveryTruncationIsFoundAndNamed) {
  for (const std::string& path : paths) {
    const std::string whole = bytes(path);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      bytes(path) = whole.substr(0, length);
      const auto damage = found();
      ASSERT_EQ(damage.size(), 1u) << path << " cut to " << length;
      ASSERT_EQ(damage[0].file, path);
      ASSERT_LE(damage[0].begin, length);
      if (path != kManifestFile) {
        ASSERT_EQ(damage[0].end, whole.size());
      }
    }
    bytes(path) = whole + "x";
    ASSERT_EQ(found().size(), 1u) << path << " with a byte too many";
    bytes(path) = whole;
  }
  EXPECT_TRUE(found().empty());
}

TEST_F(DamageSuite, ZeroedPagesAreFound) {
  for (const std::string& path : paths) {
    const std::string whole = bytes(path);
    for (std::size_t begin = 0; begin < whole.size(); begin += 512) {
      const std::size_t length = std::min<std::size_t>(512, whole.size() - begin);
      bytes(path) = std::string(whole).replace(begin, length, std::string(length, '\0'));
      if (bytes(path) == whole) continue;
      ASSERT_EQ(found().size(), 1u) << path << " page " << begin;
    }
    bytes(path) = whole;
  }
}

TEST_F(DamageSuite, EveryPairOfSwappedFilesIsFound) {
  std::size_t num_swaps = 0;
  for (std::size_t i = 0; i < paths.size(); ++i)
    for (std::size_t j = i + 1; j < paths.size(); ++j) {
      if (bytes(paths[i]) == bytes(paths[j])) continue;
      std::swap(bytes(paths[i]), bytes(paths[j]));
      EXPECT_NE(tiny::fault_of(store, kFolder, 3), "") << paths[i] << " and " << paths[j];
      std::swap(bytes(paths[i]), bytes(paths[j]));
      ++num_swaps;
    }
  EXPECT_GT(num_swaps, 40u);
  EXPECT_TRUE(found().empty());
}

TEST_F(DamageSuite, FilesOfAnotherStepAreFound) {
  tiny::expect_saved(store, "/s", 4, 3);
  for (const std::string& path : paths) {
    const std::string whole = bytes(path);
    bytes(path) = store.bytes("/s/tiny-4steps/" + path);
    if (bytes(path) == whole) continue;  // config.yaml
    EXPECT_FALSE(found().empty()) << path;
    bytes(path) = whole;
  }
  EXPECT_TRUE(found().empty());
}

TEST_F(DamageSuite, MissingFilesAreFound) {
  for (const std::string& path : paths) {
    CrashStore copy(store);
    copy.remove_file(kFolder + "/" + path);
    const auto damage = find_damage(copy, kFolder, Verify::read);
    ASSERT_EQ(damage.size(), 1u);
    EXPECT_EQ(damage[0].file, path);
    EXPECT_EQ(damage[0].fact, "it is missing");
  }
}

// Two flips that cancel in a CRC are what SHA-256 is for: a crafted box with the same CRC.
TEST_F(DamageSuite, FullVerificationReadsTheHashesToo) {
  Manifest manifest = CheckpointReader(store, kFolder).manifest();
  manifest.files[0].sha256[0] = manifest.files[0].sha256[0] == 'a' ? 'b' : 'a';
  bytes("manifest.json") = to_text(manifest);
  EXPECT_TRUE(find_damage(store, kFolder, Verify::read).empty());
  const auto damage = find_damage(store, kFolder, Verify::full);
  ASSERT_EQ(damage.size(), 1u);
  EXPECT_NE(damage[0].fact.find("sha256"), std::string::npos);
}

TEST_F(DamageSuite, NoFalseAlarmInAThousandCleanLoads) {
  const int num_loads = 1000 * test::soak_factor();
  for (int i = 0; i < num_loads; ++i) ASSERT_EQ(tiny::fault_of(store, kFolder, 3), "");
  std::printf("G5: %d clean loads without a false alarm\n", num_loads);
}

#ifdef WMTP_FAILPOINTS
TEST_F(DamageSuite, ControlWithoutTheCrcAFlipPasses) {
  std::string& shard = bytes("model/shard-00001-model-00001-of-00003.safetensors");
  shard.back() = static_cast<char>(shard.back() ^ 1);
  EXPECT_EQ(found().size(), 1u);
  failpoint::configure({.spec = "load.box.read:nth=1+=skip", .rank = 0, .log_path = {}});
  EXPECT_TRUE(found().empty());
  failpoint::configure({});
}
#endif

TEST(PathTricks, LinksAndStrangersAreRefused) {
  const test::TempDir folder;
  storage::LocalFileSystem files;
  tiny::expect_saved(files, folder.path(), 1);
  const std::filesystem::path checkpoint = folder / "tiny-1steps";
  ASSERT_EQ(tiny::fault_of(files, checkpoint, 1), "");
  const std::filesystem::path shard =
      checkpoint / "model" / "shard-00001-model-00001-of-00003.safetensors";
  std::filesystem::rename(shard, folder / "elsewhere");
  std::filesystem::create_symlink(folder / "elsewhere", shard);
  EXPECT_NE(tiny::fault_of(files, checkpoint, 1).find("not a regular file"), std::string::npos);
  std::filesystem::remove(shard);
  std::filesystem::rename(folder / "elsewhere", shard);
  std::filesystem::rename(checkpoint / "model", folder / "model");
  std::filesystem::create_directory_symlink(folder / "model", checkpoint / "model");
  EXPECT_NE(tiny::fault_of(files, checkpoint, 1).find("link"), std::string::npos);
}

}  // namespace
}  // namespace wmtp::checkpoint
