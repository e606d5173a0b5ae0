// The products' algorithms of a run in its folder (runtime.gemm_choice: measured), so that a run
// that goes on takes those that it began with: gemm_choices.json, of one GPU model and one version
// of the library.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>

#include "wmtp/config/runtime.h"
#include "wmtp/run/plan/run_context.h"

namespace wmtp::run {

class MeasuredProducts {
 public:
  // Begins with what the folder has; that of another GPU or library is left out, with a notice.
  // Does nothing unless asked for. Error data for a file that is none.
  MeasuredProducts(const config::Runtime& runtime, const RunContext& context);
  ~MeasuredProducts();
  MeasuredProducts(const MeasuredProducts&) = delete;
  MeasuredProducts& operator=(const MeasuredProducts&) = delete;

  // Writes the file on rank 0 where products were measured since: every rank has its own times, and
  // all begin with those of rank 0. A disk that is full costs a warning.
  void keep();

 private:
  bool on_, writes_;
  std::filesystem::path file_;
  std::string gpu_, library_;
  std::size_t num_kept_ = 0;
};

}  // namespace wmtp::run
