/** A process that makes one plan: the request comes on standard input, the plan leaves on standard output. */
import { text } from 'node:stream/consumers';
import { makePlan, type PlanRequest } from './plan.js';

const request = JSON.parse(await text(process.stdin)) as PlanRequest;
process.stdout.write(JSON.stringify(await makePlan(request)));
