// Work that is recorded once and replayed, with what the host does in it. A CUDA graph holds the
// device's own work alone, so each thing that the host has to do (starting a collective, waiting
// for one) ends a piece and begins another. THREADS: what is recorded is the work of one thread.
#pragma once
#include <cstddef>
#include <functional>
#include <vector>

#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp {

class RecordedPieces {
 public:
  // Calls `work`, of which nothing is done. REQUIRES what a PieceRecorder does. BLOCKS. Throws what
  // `work` throws, and c10::Error for what cannot be recorded.
  explicit RecordedPieces(const std::function<void()>& work);
  RecordedPieces(const RecordedPieces&) = delete;
  RecordedPieces& operator=(const RecordedPieces&) = delete;

  void replay() const;  // STREAM; BLOCKS where an action does
  std::size_t num_pieces() const { return num_pieces_; }

 private:
  friend bool is_recording();
  friend void between_pieces(std::function<void()> action);
  static RecordedPieces*& under_way();
  void end_piece();

  std::vector<std::function<void()>> parts_;  // pieces, and the host's actions, in turn
  std::size_t num_pieces_ = 0;
  PieceRecorder* recorder_ = nullptr;  // while it is recorded
};

bool is_recording();  // the calling thread's work
// The host's part in work that may be recorded: done at once, but while work is recorded it is left
// to every replay, behind what was enqueued before it.
void between_pieces(std::function<void()> action);

}  // namespace wmtp
