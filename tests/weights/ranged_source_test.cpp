#include "wmtp/weights/ranged/ranged_source.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <mutex>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "tools/write_tensors.h"

namespace wmtp::weights {
namespace {

using test::TempDir;

// A disk that counts the bytes that are read from it.
class CountingFiles final : public storage::FileSystem {
 public:
  explicit CountingFiles(std::uint64_t& count) : count_(count) {}
  void create_folder(const Path&) override {}
  std::unique_ptr<storage::OutputFile> create_file(const Path&) override { return nullptr; }
  void rename(const Path&, const Path&) override {}
  void sync_folder(const Path&) override {}
  void remove_file(const Path&) override {}
  void remove_folder(const Path&) override {}
  std::vector<storage::FolderEntry> list(const Path& folder) const override {
    return local_.list(folder);
  }
  storage::FileStatus status(const Path& path) const override { return local_.status(path); }
  std::uint64_t free_bytes(const Path&) const override { return 0; }
  std::unique_ptr<storage::InputFile> open(const Path& folder, std::string_view name,
                                           std::string_view origin) const override {
    return std::make_unique<Input>(local_.open(folder, name, origin), count_);
  }

 private:
  class Input final : public storage::InputFile {
   public:
    Input(std::unique_ptr<storage::InputFile> inner, std::uint64_t& count)
        : inner_(std::move(inner)), count_(count) {}
    std::uint64_t size() const override { return inner_->size(); }
    void read(std::uint64_t offset, std::span<std::byte> out) const override {
      count_ += out.size();
      inner_->read(offset, out);
    }

   private:
    std::unique_ptr<storage::InputFile> inner_;
    std::uint64_t& count_;
  };

  storage::LocalFileSystem local_;
  std::uint64_t& count_;
};

TEST(RangedSource, ReadsTheElementsAskedForAndNoOthers) {
  const TempDir folder;
  const Tensor w = at::randn({600, 50});
  test::write_tensors(folder / "model.safetensors", {{"w", w}, {"b", at::arange(3, kFloat32)}});
  std::uint64_t num_bytes = 0;
  const CountingFiles files(num_bytes);
  const auto source = open_ranged_weights(files, folder.path());
  ASSERT_EQ(source->tensors().size(), 2u);
  EXPECT_LT(num_bytes, 2000u) << "the header";
  num_bytes = 0;
  const Tensor part = at::empty({2, 50}, kFloat32), rounded = at::empty({70}, at::kBFloat16);
  source->read("w", 500, part);
  EXPECT_TRUE(part.equal(w.narrow(0, 10, 2)));
  EXPECT_EQ(num_bytes, 400u);
  source->read("w", 17, rounded);
  EXPECT_TRUE(rounded.equal(w.view({-1}).narrow(0, 17, 70).to(at::kBFloat16)));
  EXPECT_EQ(num_bytes, 400u + 280u);
  EXPECT_WMTP_ERROR(source->read("nobody", 0, part), ErrorKind::config, "no tensor nobody");
  EXPECT_EQ(source->file_of(source->tensors()[0]), (folder / "model.safetensors").string());
}

TEST(RangedSource, FollowsAnIndex) {
  const TempDir folder;
  const Tensor a = at::randn({4}), b = at::randn({5});
  test::write_tensors(folder / "1.safetensors", {{"a", a}, {"spare", at::randn({2})}});
  test::write_tensors(folder / "2.safetensors", {{"b", b}});
  const auto write_index = [&](const std::string& map) {
    test::write_file(folder / "model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
  };
  write_index(R"("a": "1.safetensors", "b": "2.safetensors")");
  const storage::LocalFileSystem files;
  const auto source = open_ranged_weights(files, folder.path());
  EXPECT_EQ(source->find("spare"), nullptr);
  const Tensor got = at::empty({5}, kFloat32);
  source->read("b", 0, got);
  EXPECT_TRUE(got.equal(b));
  write_index(R"("a": "1.safetensors", "c": "2.safetensors")");
  EXPECT_WMTP_ERROR(open_ranged_weights(files, folder.path()), ErrorKind::data,
                    "which does not hold it");
}

TEST(RangedSource, RefusesWhatItCannotReadInRanges) {
  const TempDir folder;
  const storage::LocalFileSystem files;
  EXPECT_EQ(open_ranged_weights(files, folder.path()), nullptr);
  test::write_file(folder / "pytorch_model.bin", "x");
  EXPECT_WMTP_ERROR(open_ranged_weights(files, folder.path()), ErrorKind::config,
                    "pytorch_model.bin cannot be read in ranges");
}

TEST(RangedSource, RefusesHeadersThatCannotBe) {
  const TempDir folder;
  const storage::LocalFileSystem files;
  for (const std::string& bytes :
       {std::string(), std::string("abc"), std::string(8, '\xff'), std::string(20, '\1')}) {
    test::write_file(folder / "model.safetensors", bytes);
    EXPECT_WMTP_ERROR(open_ranged_weights(files, folder.path()), ErrorKind::data,
                      "model.safetensors");
  }
}

}  // namespace
}  // namespace wmtp::weights
