// SPDX-License-Identifier: MIT
// A tool of valgrind's that does one thing: it counts the instructions of each thread, and tells a program that asks
// (count.h). It is linked with valgrind's own libraries, which Debian and Ubuntu bring in the package valgrind.
#include "count.h"

#include "libvex_ir.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_transtab.h"

// Valgrind runs one thread at a time. What is counted goes to the one that runs; it is shared out when another one
// does.
static ULong g_count;
static ULong g_shared_out;
static ThreadId g_running;
static ULong* g_counts;                  // by thread
static Addr g_left_out, g_left_out_end;  // the recorder, which is no part of the program

static void share_out(void) {
  g_counts[g_running] += g_count - g_shared_out;
  g_shared_out = g_count;
}

static void thread_runs(ThreadId thread, ULong blocks) {
  (void)blocks;
  share_out();
  g_running = thread;
}

// Numbers of threads are used again.
static void thread_is_made(ThreadId parent, ThreadId child) {
  (void)parent;
  if (child == g_running) return;
  g_counts[child] = 0;
}

static Bool asked(ThreadId thread, UWord* arguments, UWord* answer) {
  if (arguments[0] == COFFER_COUNT) {
    share_out();
    *answer = (UWord)g_counts[thread] + 1;
    return True;
  }
  if (arguments[0] != COFFER_LEAVE_OUT || arguments[2] <= arguments[1]) return False;
  g_left_out = arguments[1];
  g_left_out_end = arguments[2];
  // What is translated already counts them.
  VG_(discard_translations_safely)(g_left_out, g_left_out_end - g_left_out, "coffer_count");
  *answer = 1;
  return True;
}

static Bool counts(Addr address) { return address < g_left_out || address >= g_left_out_end; }

static void add_count(IRSB* block, UInt instructions) {
  if (instructions == 0) return;
  IRExpr* const where = mkIRExpr_HWord((HWord)&g_count);
  const IRTemp before = newIRTemp(block->tyenv, Ity_I64), after = newIRTemp(block->tyenv, Ity_I64);
  addStmtToIRSB(block, IRStmt_WrTmp(before, IRExpr_Load(Iend_LE, Ity_I64, where)));
  addStmtToIRSB(block, IRStmt_WrTmp(after, IRExpr_Binop(Iop_Add64, IRExpr_RdTmp(before),
                                                        IRExpr_Const(IRConst_U64(instructions)))));
  addStmtToIRSB(block, IRStmt_Store(Iend_LE, where, IRExpr_RdTmp(after)));
}

// Before each way out of the block, what was executed since the one before is added.
static IRSB* count_block(VgCallbackClosure* closure, IRSB* given, const VexGuestLayout* layout,
                         const VexGuestExtents* extents, const VexArchInfo* machine, IRType guest, IRType host) {
  (void)closure, (void)layout, (void)extents, (void)machine, (void)guest, (void)host;
  IRSB* const made = deepCopyIRSBExceptStmts(given);
  UInt instructions = 0;
  for (Int i = 0; i < given->stmts_used; ++i) {
    IRStmt* const statement = given->stmts[i];
    if (statement == NULL || statement->tag == Ist_NoOp) continue;
    if (statement->tag == Ist_IMark && counts(statement->Ist.IMark.addr)) ++instructions;
    if (statement->tag == Ist_Exit) {
      add_count(made, instructions);
      instructions = 0;
    }
    addStmtToIRSB(made, statement);
  }
  add_count(made, instructions);
  return made;
}

static void options_are_read(void) { g_counts = VG_(calloc)("coffer.counts", VG_N_THREADS, sizeof *g_counts); }

static void ends(Int status) { (void)status; }

static void begins(void) {
  VG_(details_name)("coffer_count");
  VG_(details_version)(NULL);
  VG_(details_description)("counts the instructions between a program's allocations");
  VG_(details_copyright_author)("Part of Coffer");
  VG_(details_bug_reports_to)("Coffer");
  VG_(details_avg_translation_sizeB)(200);
  VG_(basic_tool_funcs)(options_are_read, count_block, ends);
  VG_(needs_client_requests)(asked);
  VG_(track_start_client_code)(thread_runs);
  VG_(track_pre_thread_ll_create)(thread_is_made);
}

VG_DETERMINE_INTERFACE_VERSION(begins)
