// Remember and recall from Node: plain SQL over the `pg` package, no client library of ours.
//
//   npm install
//   DATABASE_URL=postgresql://me@localhost/mydb node recall.mjs
//
// Without DATABASE_URL the usual PGHOST, PGUSER, PGDATABASE ... are used.
import pg from "pg";

const workspace = process.env.REMEM_WORKSPACE ?? "node-example";
const connectionString = process.env.DATABASE_URL;
const client = new pg.Client(connectionString ? { connectionString } : {});

// A degraded recall (say, no embedding for this query) says so once, as a WARNING: its detail is a
// JSON array of states. An empty answer without it means that nothing matched.
let degraded = [];
client.on("notice", (notice) => {
  if (notice.code === "RM501") degraded = JSON.parse(notice.detail);
});

await client.connect();
try {
  // Named arguments: write only what you have something to say about. The same ref with the same
  // content is "unchanged", so this program can run again.
  const remembered = await client.query(
    `select memory_id, ref, outcome
       from remem.remember($1, body => $2, ref => $3, kind => 'decision', topic_key => 'retries')`,
    [workspace, "We retry three times with backoff, then page whoever is on call.", "retries-1"],
  );

  // Many at once: a JSON array of objects with the same names. "report" stores what it can and says
  // of each item what became of it.
  const items = [
    { ref: "deploys-1", body: "Deployments happen on Tuesdays before noon.", tags: ["ops"] },
    { ref: "coffee-1", body: "Ana prefers oat milk in her coffee.", kind: "preference" },
    { ref: "empty-1", body: "" },
  ];
  const many = await client.query(
    "select item_no, ref, outcome, error ->> 'code' as code from remem.remember_many($1, $2, 'report')",
    [workspace, JSON.stringify(items)],
  );

  const hits = await client.query(
    "select rank, ref, body, score, relevance, arms from remem.recall($1, $2, k => 3)",
    [workspace, "how often do we retry before paging?"],
  );

  // What remem refuses has a code of class RM, a JSON detail, and a hint that is the next step.
  let refused;
  try {
    await client.query("select * from remem.recall($1, $2, k => -1)", [workspace, "anything"]);
  } catch (error) {
    refused = { code: error.code, detail: JSON.parse(error.detail), hint: error.hint };
  }

  const result = {
    remembered: remembered.rows[0],
    items: many.rows,
    hits: hits.rows,
    degraded,
    refused,
  };
  console.log(JSON.stringify(result, null, 2));
} finally {
  await client.end();
}
