#include "wmtp/tensor/recorded_pieces.h"

#include <memory>
#include <utility>

#include "wmtp/core/error.h"
#include "wmtp/core/failpoint.h"

namespace wmtp {

RecordedPieces*& RecordedPieces::under_way() {
  thread_local RecordedPieces* current = nullptr;
  return current;
}

RecordedPieces::RecordedPieces(const std::function<void()>& work) {
  WMTP_CHECK(!is_recording(), "work is recorded within a recording");
  const std::unique_ptr<PieceRecorder> recorder = cuda_tables().services.recorder();
  struct UnderWay {
    explicit UnderWay(RecordedPieces* pieces) { under_way() = pieces; }
    ~UnderWay() { under_way() = nullptr; }
  };
  const UnderWay mark(this);
  recorder_ = recorder.get();
  recorder_->begin();
  work();
  end_piece();
  recorder_ = nullptr;
}

void RecordedPieces::end_piece() {
  if (failpoint::pass("step.graph.record") == failpoint::Action::damage)
    throw Error(ErrorKind::device, "tensor", "the recording was made to fail");
  parts_.emplace_back([work = std::shared_ptr(recorder_->end())] { work->replay(); });
  ++num_pieces_;
}

void RecordedPieces::replay() const {
  for (const std::function<void()>& part : parts_) part();
}

bool is_recording() {
  return RecordedPieces::under_way() != nullptr;
}

void between_pieces(std::function<void()> action) {
  RecordedPieces* const pieces = RecordedPieces::under_way();
  if (!pieces) return action();
  const bool parts = !pieces->recorder_->empty();
  if (parts) pieces->end_piece();
  pieces->parts_.push_back(std::move(action));
  if (parts) pieces->recorder_->begin();
}

}  // namespace wmtp
