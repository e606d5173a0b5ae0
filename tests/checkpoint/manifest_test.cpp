#include "wmtp/checkpoint/format/manifest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/checkpoint/format/damage.h"
#include "wmtp/core/checksum.h"

namespace wmtp::checkpoint {
namespace {

Manifest some_manifest() {
  Manifest manifest;
  manifest.model = "tiny";
  manifest.step = 7;
  manifest.run_id = "r1";
  manifest.created = "2026-01-01T00:00:00.000Z";
  manifest.wmtp = "0.1.0";
  manifest.world_size = 2;
  manifest.strategy = "FULL_SHARD";
  manifest.fingerprints = {"c", "d", "t", "b\"quoted\""};
  manifest.model_tensors["w"] = {storage::StoredDtype::F32, {4, 3}};
  auto shard = [](std::string path, std::vector<std::int64_t> offsets,
                  std::vector<std::int64_t> shape) {
    FileRecord file;
    file.path = std::move(path);
    file.bytes = 100;
    file.sha256 = std::string(64, 'a');
    file.crc32c = 0x0badcafe;
    file.boxes.push_back({"w", std::move(offsets), std::move(shape), 0x1234});
    return file;
  };
  manifest.files = {shard("model/2", {2, 1}, {1, 2}), shard("model/1", {0, 0}, {2, 3}),
                    shard("model/3", {2, 0}, {1, 1}), shard("model/4", {3, 0}, {1, 3})};
  FileRecord state;
  state.path = "trainer_state.json";
  state.sha256 = std::string(64, '0');
  manifest.files.push_back(state);
  return manifest;
}

// The text with `from` replaced and the self hash made right again: a writer's fault, not damage.
std::string changed(Manifest manifest, const std::string& from, const std::string& to) {
  std::string text = to_text(manifest);
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  text.replace(at, from.size(), to);
  const auto digits = text.size() - 67;
  text.replace(digits, 64, std::string(64, '0'));
  return text.replace(digits, 64, sha256_hex(text));
}

TEST(Manifest, RoundTrip) {
  Manifest written = some_manifest();
  const std::string text = to_text(written);
  const Manifest read = parse_manifest(text, "folder");
  EXPECT_EQ(read.self_sha256, written.self_sha256);
  EXPECT_EQ(read.fingerprints, written.fingerprints);
  EXPECT_EQ(read.model_tensors, written.model_tensors);
  EXPECT_EQ(read.files.size(), 5u);
  EXPECT_EQ(read.files[0].path, "model/1");
  EXPECT_EQ(read.files[0].boxes[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(read.files[0].crc32c, 0x0badcafeu);
  EXPECT_EQ(read.total_bytes(), 400u);
  Manifest again = read;
  EXPECT_EQ(to_text(again), text);
}

TEST(Manifest, ANameInBothPartsIsRefused) {
  Manifest manifest = some_manifest();
  manifest.optim_tensors["w"] = {storage::StoredDtype::F32, {12}};
  FileRecord file = manifest.files[1];
  file.path = "optim/1";
  file.boxes = {{"w", {0}, {12}, 0x1234}};
  manifest.files.push_back(file);
  EXPECT_WMTP_ERROR(parse_manifest(to_text(manifest), "folder"), ErrorKind::checkpoint,
                    "in both parts");
}

TEST(Manifest, SelfHashIsTheHashWithItsOwnDigitsAsZeros) {
  Manifest manifest = some_manifest();
  std::string text = to_text(manifest);
  const auto digits = text.find(manifest.self_sha256);
  ASSERT_NE(digits, text.npos);
  text.replace(digits, 64, std::string(64, '0'));
  EXPECT_EQ(sha256_hex(text), manifest.self_sha256);
}

TEST(Manifest, DamageIsFoundBeforeAnythingIsBelieved) {
  Manifest manifest = some_manifest();
  const std::string text = to_text(manifest);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string bad = text;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    EXPECT_THROW(parse_manifest(bad, "folder"), DamageError) << i;
    EXPECT_THROW(parse_manifest(text.substr(0, i), "folder"), DamageError) << i;
  }
}

TEST(Manifest, NewerAndForeignOnesAreNoDamage) {
  EXPECT_WMTP_ERROR(
      parse_manifest(changed(some_manifest(), "\"version\":1", "\"version\":2"), "folder"),
      ErrorKind::config, "version 2 of the checkpoint format");
  EXPECT_WMTP_ERROR(parse_manifest(changed(some_manifest(), "wmtp-checkpoint", "other"), "folder"),
                    ErrorKind::config, "format \"other\"");
  EXPECT_WMTP_ERROR(parse_manifest("{\"name\":\"a web app\"}\n", "folder"), ErrorKind::config,
                    "not one of wmtp");
  EXPECT_THROW(parse_manifest("", "folder"), DamageError);
  EXPECT_THROW(parse_manifest("not json", "folder"), DamageError);
}

struct Bad {
  std::string from, to, message;
};

TEST(Manifest, HostileContentsWithARightHash) {
  const std::vector<Bad> cases{
      {"\"path\":\"model/1\"", "\"path\":\"model/../1\"", "\"..\" component"},
      {"\"path\":\"model/1\"", "\"path\":\"/etc/passwd\"", "absolute path"},
      {"\"path\":\"model/1\"", "\"path\":\"model//1\"", "empty component"},
      {"\"path\":\"model/1\"", "\"path\":\"model/x\\u0000\"", "NUL"},
      {"\"path\":\"model/1\"", "\"path\":\"model/a/1\"", "no business"},
      {"\"path\":\"model/1\"", "\"path\":\"other/1\"", "no business"},
      {"\"path\":\"model/1\"", "\"path\":\"1\"", "no business"},
      {"\"path\":\"model/1\"", fmt::format("\"path\":\"model/{}\"", std::string(5000, 'n')),
       "4096"},
      {"\"path\":\"trainer_state.json\"", "\"path\":\"model/9\"", "no business"},
      {"\"path\":\"trainer_state.json\"", "\"path\":\"manifest.json\"", "no business"},
      {"\"path\":\"model/2\"", "\"path\":\"model/1\"", "occurs twice"},
      {"\"step\":7", "\"step\":-1", "\"step\" is -1"},
      {"\"step\":7", "\"step\":7.0", "no integer"},
      {"\"step\":7", "\"step\":99999999999999999999", "64 bits"},
      {"\"step\":7", "\"step\":7,\"step\":7", "duplicate key"},
      {"\"step\":7", "\"stop\":7", "\"step\" is missing"},
      {"\"step\":7", "\"step\":7,\"more\":1", "keys"},
      {"\"kind\":\"sharded\"", "\"kind\":\"odd\"", "unknown kind"},
      {"\"world_size\":2", "\"world_size\":0", "world_size"},
      {"\"F32\"", "\"F33\"", "unknown dtype"},
      {"\"shape\":[4,3]", "\"shape\":[4,4]", "bad box"},
      {"\"shape\":[1,2]", "\"shape\":[1,1]", "a hole at element 8"},
      {"\"shape\":[4,3]", "\"shape\":[5,3]", "cover 12 of 15"},
      {"\"shape\":[4,3]", "\"shape\":[4611686018427387904,4]", "overflows"},
      {"\"shape\":[4,3]", "\"shape\":[4,3,1]", "one or two"},
      {"\"shape\":[4,3]", "\"shape\":[]", "one or two"},
      {"\"offsets\":[2,1]", "\"offsets\":[2,0]", "an overlap"},
      {"\"offsets\":[2,1]", "\"offsets\":[1,1]", "an overlap"},
      {"\"offsets\":[3,0]", "\"offsets\":[4,0]", "bad box"},
      {"\"offsets\":[3,0]", "\"offsets\":[3,-1]", "holds -1"},
      {"\"shape\":[2,3]", "\"shape\":[2,2]", "bad box"},
      {"\"crc32c\":\"00001234\"", "\"crc32c\":\"1234\"", "8 hex digits"},
      {"\"crc32c\":\"00001234\"", "\"crc32c\":\"0000ABCD\"", "8 hex digits"},
      {"\"tensors\":{\"w\"", "\"tensors\":{\"v\"", "not in the list"},
      {"\"files\":[", "\"files\":[[[[[[[[", "nested deeper than 8"},
  };
  for (const Bad& bad : cases)
    EXPECT_WMTP_ERROR(parse_manifest(changed(some_manifest(), bad.from, bad.to), "folder"),
                      ErrorKind::checkpoint, bad.message);
}

}  // namespace
}  // namespace wmtp::checkpoint
