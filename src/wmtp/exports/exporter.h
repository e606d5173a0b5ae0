// Writes an export from whole tensors that arrive one at a time, in any order: from a folder's
// files (from_source.h), or from a run, which gathers unit by unit:
//   std::optional<Exporter> exporter;                              // rank 0 only
//   if (rank == 0) exporter.emplace(spec);
//   runtime.gather_full([&](const layout::ParamSpec& param, const Tensor& whole) {
//     exporter->take(param.name, whole); });                       // called on rank 0
//   if (rank == 0) exporter->finish(reference with probe_logits);
// Files are written at their places as tensors come, so memory is one tensor (with adapters to
// merge: one unit). Nothing appears under the target's name before finish() returns.
#pragma once
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/exports/merger.h"
#include "wmtp/exports/nf4_distance.h"
#include "wmtp/exports/plan.h"
#include "wmtp/exports/probe.h"
#include "wmtp/parallel/unit_state.h"
#include "wmtp/weights/fresh_folder.h"
#include "wmtp/weights/tensor_sink.h"

namespace wmtp::exports {

struct ExportReport {
  std::filesystem::path folder;
  std::vector<std::string> files;  // names, sorted
  std::size_t num_tensors = 0;
  std::uint64_t bytes = 0;  // of tensors
  bool verified = false;
  std::optional<double> logit_difference;   // of the probe, over the largest logit
  bool nf4_base = false;                    // whole weights were written from a base in NF4
  std::optional<Nf4Distance> nf4_distance;  // of those to what spec.unquantized would have given
};

// "; from a base in NF4: ..." with the distance, or that there is nothing to compare with; empty
// for other bases.
std::string nf4_text(const ExportReport& report);

// What the export is held against once it has been read back.
struct ExportReference {
  ProbeLogits logits;        // of the source; empty: no probe
  parallel::ReadParam base;  // peft: reads the base model's weights; empty: no probe
  DType computed_in = kFloat32;
};

class Exporter {
 public:
  // Error config for a target that is no folder of ours or a spec the format cannot hold; nothing
  // has been written then. Error io when the space is not there.
  explicit Exporter(ExportSpec spec);
  ~Exporter();

  const ExportPlan& plan() const { return plan_; }
  // What take() has to be called with: the plan's tensors, before merging.
  std::vector<layout::ParamSpec> wanted() const;
  // A whole tensor on the host, any floating dtype; names that are not wanted are passed over.
  // Never throws, so that a collective around it ends on all ranks: finish() throws what went
  // wrong here.
  void take(const std::string& name, const Tensor& whole) noexcept;
  bool failed() const { return failure_ != nullptr; }

  // BLOCKS. Writes the rest, reads everything back (unless spec.verify is false) and gives the
  // folder its name. Error io for what could not be written or does not read back, numeric where
  // the logits differ; the target is then what it was before.
  ExportReport finish(const ExportReference& reference = {});

 private:
  void open_files();
  void put(const std::string& name, const Tensor& whole, const Tensor& wanted = {});
  Tensor unquantized(const std::string& name) const;  // undefined: `name` is not compared

  ExportSpec spec_;
  ExportPlan plan_;
  weights::FreshFolder folder_;
  std::vector<std::unique_ptr<weights::TensorSink>> sinks_;  // parallel to plan_.files
  std::map<std::string, std::size_t, std::less<>> by_name_;  // wmtp's name -> plan_.tensors
  std::vector<std::uint32_t> checksums_;                     // parallel to plan_.tensors
  std::optional<AdapterMerger> merger_;
  Nf4Distance distance_;
  std::exception_ptr failure_;
};

}  // namespace wmtp::exports
