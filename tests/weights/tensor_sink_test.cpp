#include "wmtp/weights/tensor_sink.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/weights/safetensors.h"
#include "wmtp/weights/safetensors_tensor.h"
#include "wmtp/weights/torch_file.h"

namespace wmtp::weights {
namespace {

struct Named {
  std::string name;
  Tensor values;
};

std::vector<Named> some_tensors() {
  return {{"b", at::arange(6, at::kFloat).view({2, 3})},
          {"a", at::arange(5, at::kFloat).to(at::kBFloat16)},
          {"empty", at::empty({0, 4}, at::kFloat)},
          {"c", at::arange(70000, at::kFloat).view({7, 10000})}};
}

std::vector<StoredTensor> stored(const std::vector<Named>& tensors) {
  std::vector<StoredTensor> list;
  for (const Named& tensor : tensors)
    list.push_back(
        {tensor.name, to_stored(tensor.values.scalar_type()), tensor.values.sizes().vec()});
  return list;
}

TEST(SafetensorsSink, AnyOrderGivesTheSameBytes) {
  test::TempDir folder;
  std::vector<Named> tensors = some_tensors();
  for (const char* name : {"a.safetensors", "b.safetensors"}) {
    const auto sink = create_safetensors(folder / name, stored(tensors), {{"k", "v"}}, 0644);
    std::swap(tensors[0], tensors[3]);
    for (const Named& tensor : tensors) sink->put(tensor.name, bytes_of(tensor.values));
    sink->finish();
  }
  EXPECT_EQ(test::slurp(folder / "a.safetensors"), test::slurp(folder / "b.safetensors"));
}

TEST(TorchFileSink, OurReaderFindsEveryTensor) {
  test::TempDir folder;
  std::vector<Named> tensors = some_tensors();
  const auto sink = create_torch_file(folder / "a.pt", stored(tensors), {7, 3}, 0644);
  std::swap(tensors[0], tensors[3]);
  for (const Named& tensor : tensors) sink->put(tensor.name, bytes_of(tensor.values));
  sink->finish();
  const auto source = open_torch_file(storage::MappedFile::open(folder / "a.pt"));
  EXPECT_EQ(source->tensors().size(), tensors.size());
  for (const Named& tensor : tensors) {
    const Tensor read = at::empty_like(tensor.values);
    source->read(tensor.name, 0, read);
    EXPECT_TRUE(read.equal(tensor.values)) << tensor.name;
  }
}

TEST(TensorSinks, RefuseWhatWasNotAnnounced) {
  test::TempDir folder;
  const std::vector<Named> tensors = some_tensors();
  const auto check = [&](TensorSink& sink) {
    EXPECT_WMTP_ERROR(sink.put("x", bytes_of(tensors[0].values)), ErrorKind::internal, "announced");
    EXPECT_WMTP_ERROR(sink.put("a", bytes_of(tensors[0].values)), ErrorKind::internal, "announced");
    sink.put("a", bytes_of(tensors[1].values));
    EXPECT_WMTP_ERROR(sink.put("a", bytes_of(tensors[1].values)), ErrorKind::internal, "twice");
    EXPECT_WMTP_ERROR(sink.finish(), ErrorKind::internal, "3 tensors are missing");
  };
  check(*create_safetensors(folder / "a.safetensors", stored(tensors), {}, 0644));
  check(*create_torch_file(folder / "a.pt", stored(tensors), {}, 0644));
}

// Files may not grow over a limit while this lives: the errors of a full disk, without one.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

TEST(TensorSinks, NoSpaceIsAnIoError) {
  test::TempDir folder;
  const std::vector<Named> tensors = some_tensors();
  const SmallFiles limit(100000);
  EXPECT_WMTP_ERROR(create_safetensors(folder / "a.safetensors", stored(tensors), {}, 0644),
                    ErrorKind::io, "is there enough space");
  const auto sink = create_torch_file(folder / "a.pt", stored(tensors), {}, 0644);
  EXPECT_WMTP_ERROR(sink->put("c", bytes_of(tensors[3].values)), ErrorKind::io, "a.pt");
}

}  // namespace
}  // namespace wmtp::weights
